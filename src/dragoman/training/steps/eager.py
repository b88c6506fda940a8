"""Eager training steps, on any device, with any layout, in any number of processes; and code shared by all steps."""

from __future__ import annotations

import ctypes
import hashlib
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dragoman.config import TrainRecipe
from dragoman.data.batch import Batch
from dragoman.errors import TrainingError
from dragoman.native import why_not
from dragoman.nn.kernels import triton_available
from dragoman.nn.kernels.cpu_bf16 import has_bfloat16_matmul, torch_bfloat16_works
from dragoman.nn.layout import joint_tiles
from dragoman.nn.linear import bfloat16_matmul
from dragoman.text.special_tokens import BOS, EOS, PAD
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.distributed.sharding import Sharded, full_tensor, local_shard
from dragoman.training.optim.optimizer import Optimizer
from dragoman.values import MAX_INT


@dataclass(frozen=True)
class StepResult:
    """Sums of the loss over target tokens, token counts, and the gradient norm before clipping."""

    step: int
    target: float
    source: float
    smoothed: float
    plain: float
    norm: float

    @property
    def finite(self) -> bool:
        """Whether the step was applied."""
        return math.isfinite(self.smoothed) and math.isfinite(self.norm)


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
    """A seed from counters such as (seed, step, batch of the step)."""
    text = "/".join(map(str, counters)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def precision(recipe: TrainRecipe, device: torch.device) -> Callable[[], AbstractContextManager[None]]:
    """The context for forward passes: bfloat16 if the recipe sets it; on a CPU with our own kernel if possible."""
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
                code="unsupported_precision",
            )
    return lambda: torch.autocast(device.type, torch.bfloat16)


def supports_cuda_graph(recipe: TrainRecipe, ranks: Ranks, batch: Any, model: nn.Module) -> bool:
    """Whether a run can use CUDA graphs: a GPU, batches of one shape, compilation, an optimizer that skips on it.

    PyTorch does not compile its recurrent layers.
    """
    fixed = ranks.device.type == "cuda" and recipe.compile and batch.fixed_shape
    plain = not any(isinstance(part, nn.RNNBase) for part in model.modules())
    return fixed and recipe.optimizer in ("adam", "adamw") and plain


def wrap_task(task: nn.Module, recipe: TrainRecipe, ranks: Ranks) -> nn.Module:
    """The task, compiled and wrapped for several processes according to the recipe; a sharded one already is."""
    if isinstance(task, Sharded):
        return task
    if recipe.compile:
        task = torch.compile(task, dynamic=True)  # type: ignore[assignment]
    if ranks.world > 1:
        ids = [ranks.device.index] if ranks.device.type == "cuda" else None
        with warnings.catch_warnings():  # the newer name of this option is unknown to PyTorch 2.11
            warnings.filterwarnings("ignore", ".*broadcast_buffers", FutureWarning)
            task = DistributedDataParallel(task, device_ids=ids, broadcast_buffers=False)
    return task


class EagerSteps:
    """The steps of a run, each complete when `submit` returns; has the interface of `CudaGraphSteps`."""

    def __init__(
        self,
        task: nn.Module,
        model: nn.Module,
        optimizer: Optimizer,
        recipe: TrainRecipe,
        autocast: Callable[[], AbstractContextManager[None]],
        ranks: Ranks,
        ema: Mapping[str, Tensor],
        stage: Callable[[Any, torch.device], Any] = to_device,
        make_empty: Callable[[torch.device], Any] = empty_batch,
    ) -> None:
        self.stage, self.make_empty = stage, make_empty
        self.task, self.model, self.optimizer, self.recipe, self.autocast = task, model, optimizer, recipe, autocast
        self.ranks, self.ema, self.step = ranks, ema, 0
        self.results: list[StepResult] = []

    def fix_bucket_order(self) -> None:
        """Make DistributedDataParallel lay out its buckets before the first step, the same in every run.

        It does so after its first backward pass, and with three or more processes the layout determines the order of
        sums: without this, the step after a resume would differ in its last bits.
        """
        if isinstance(self.task, DistributedDataParallel) and not self.recipe.compile:
            self.model.eval()  # batch norm must not count these passes
            for _ in range(2):
                self.task(self.make_empty(self.ranks.device)).smoothed.backward()
            self.optimizer.clear_gradients()

    def submit(self, batches: Sequence[Any], step: int, target: float, source: float, rate: float) -> None:
        """Run one step."""
        self.step = step
        ranks, sums = self.ranks, torch.zeros(2, dtype=torch.float64, device=self.ranks.device)
        for number, batch in enumerate(batches):
            # By the batch's place in the step: dropout does not depend on how many ranks share the batches.
            torch.manual_seed(derive_seed(self.recipe.seed, step, number * ranks.world + ranks.rank, 0))
            with self._gradient_sync(number + 1 == len(batches)):
                with self.autocast():
                    loss = self.task(self.stage(batch, ranks.device))
                # DDP averages over ranks; undo that, and divide once by the tokens of all.
                (loss.smoothed * (ranks.world / target)).backward()
            sums += torch.stack([loss.smoothed.detach(), loss.plain]).double()
        norm = self._clipped_norm()
        smoothed, plain, not_finite = ranks.sum(*sums.tolist(), float(not math.isfinite(norm)))
        # The same sums on every rank: all skip, or none does.
        norm = math.nan if not_finite and math.isfinite(norm) else norm
        result = StepResult(step, target, source, smoothed, plain, norm)
        if result.finite:
            self.optimizer.step(rate)
            self._update_ema()
        self.optimizer.clear_gradients()
        self.results.append(result)

    def completed(self, wait: bool) -> list[StepResult]:
        """The results since the last call; `wait` makes no difference."""
        results, self.results = self.results, []
        return results

    def _gradient_sync(self, now: bool) -> AbstractContextManager[None]:
        """Sum gradients over ranks in the last micro-batch of a step only."""
        if isinstance(self.task, Sharded):
            self.task.sync_gradients(now)
        elif isinstance(self.task, DistributedDataParallel) and not now:
            no_sync: AbstractContextManager[None] = self.task.no_sync()
            return no_sync
        return nullcontext()

    def _clipped_norm(self) -> float:
        """Clip the gradients to the recipe's limit; return their norm before clipping."""
        norm = nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None], foreach=True)
        if self.recipe.clip:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), self.recipe.clip, norm, foreach=True)
        return float(full_tensor(norm))

    def _update_ema(self) -> None:
        """Update the moving average of the weights."""
        if self.ema:
            with torch.no_grad():
                weights = dict(self.model.named_parameters())
                for name, average in self.ema.items():
                    local_shard(average).lerp_(local_shard(weights[name]), 1 - self.recipe.ema)


TRIM_THRESHOLD, TOP_PAD, MMAP_MAX = -1, -2, -4  # of mallopt(3)


def keep_freed_memory() -> bool:
    """Make the C library keep freed memory; return whether it does.

    By default it returns large blocks at once, and the system clears every page that it hands out again, which takes up
    to a fifth of a step. Peak memory does not change.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:  # a C library without this setting
        return False
    return all(mallopt(name, value) for name, value in ((MMAP_MAX, 0), (TRIM_THRESHOLD, MAX_INT), (TOP_PAD, 1 << 26)))
