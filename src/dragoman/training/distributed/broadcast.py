"""A checkpoint that the first process read, for all of them: what it holds in words, then tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dragoman.training.checkpoints.checkpoint import PARTS, Checkpoint
from dragoman.training.distributed.ranks import Ranks


def describe(saved: Checkpoint) -> dict[str, dict[str, Any]]:
    """Kind and shape of each tensor by part, and the progress, as JSON carries them."""
    about: dict[str, dict[str, Any]] = {
        part: {name: (str(t.dtype).removeprefix("torch."), list(t.shape)) for name, t in tensors.items()}
        for part, tensors in saved.parts().items()
    }
    return {**about, "progress": {**saved.progress, "step": saved.step}}


def tensors_for_all(
    ranks: Ranks, saved: Checkpoint | None, about: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, str, Tensor]]:
    """Each tensor with its part and name, on this process's device; one at a time, so that memory stays small."""
    held = saved.parts() if saved is not None else {}
    for part in PARTS:
        for name, (kind, shape) in about[part].items():
            tensor = held[part][name] if held else torch.empty(shape, dtype=getattr(torch, kind))
            yield part, name, ranks.share(tensor.to(ranks.device))
