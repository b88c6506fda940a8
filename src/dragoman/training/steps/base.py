"""What a training step needs besides the model: batches on the device, seeds, the precision."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch

from dragoman.config import TrainRecipe
from dragoman.data.batch import Batch
from dragoman.errors import TrainingError
from dragoman.native import why_not
from dragoman.nn.kernels.availability import triton_available
from dragoman.nn.kernels.cpu_bf16 import bfloat16_matmul, has_bfloat16_matmul, torch_bfloat16_works
from dragoman.nn.layout import joint_tiles
from dragoman.text.special_tokens import BOS, EOS, PAD


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch on the device; a rank whose epoch has ended takes part with a sentence of weight 0."""
    if batch.layout == "packed":
        return (add_tiles(batch) if triton_available(device.type) else batch).to(device)
    return batch.to(device) if batch.n_sentences else empty_batch(device, batch.state)


def add_tiles(batch: Batch) -> Batch:
    """A packed batch with the tables that packed attention needs."""
    tiles = joint_tiles(batch.source_lengths, batch.target_lengths, len(batch.source), len(batch.target_in))
    return replace(batch, source_tiles=tiles[0], target_tiles=tiles[1])


def empty_batch(device: torch.device, state: int = 0) -> Batch:
    """A batch of one empty sentence with a target of padding: every weight gets a gradient of 0."""
    one = torch.ones(1, 1, dtype=torch.long)
    return Batch(
        layout="padded",
        source=one * EOS,
        source_lengths=one[0],
        target_in=one * BOS,
        target_out=one * PAD,
        target_lengths=one[0],
        pairs=one[0] * -1,
        n_sentences=0,
        source_tokens=0,
        target_tokens=0,
        longest=1,
        state=state,
        source_depths=one * 0,
    ).to(device)


def derive_seed(*counters: int) -> int:
    """A seed from counters such as (seed, step, micro-batch, rank)."""
    text = "/".join(map(str, counters)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def precision(recipe: TrainRecipe, device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """The context for forward passes: bfloat16 as the recipe says; on a CPU with our own kernel if possible."""
    use_bfloat16 = recipe.precision == "bfloat16" or (recipe.precision == "auto" and device.type == "cuda")
    if not use_bfloat16:
        return nullcontext
    if device.type == "cpu":
        if has_bfloat16_matmul():
            return bfloat16_matmul
        if not torch_bfloat16_works():
            raise TrainingError(
                "train.precision='bfloat16' causes an illegal instruction on this CPU, and our own kernel is not "
                f"available: {why_not('gemm')}; use train.precision='float32'",
                code="precision_unavailable",
            )
    return lambda: torch.autocast(device.type, torch.bfloat16)
