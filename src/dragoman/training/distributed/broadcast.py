"""Broadcast a checkpoint that rank 0 has read: its description first, then tensor by tensor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from dragoman.training.checkpoints.checkpoint import PARTS, Checkpoint
from dragoman.training.distributed.ranks import Ranks


def describe_checkpoint(saved: Checkpoint) -> dict[str, dict[str, Any]]:
    """Type and shape of each tensor by part, and the training state, as JSON."""
    about: dict[str, dict[str, Any]] = {
        part: {name: (str(t.dtype).removeprefix("torch."), list(t.shape)) for name, t in tensors.items()}
        for part, tensors in saved.parts().items()
    }
    return {**about, "state": {**saved.state, "step": saved.step}}


def broadcast_tensors(
    ranks: Ranks, saved: Checkpoint | None, about: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, str, Tensor]]:
    """Each tensor with its part and name, on this rank's device; one at a time, to save memory."""
    loaded = saved.parts() if saved is not None else {}
    for part in PARTS:
        for name, (kind, shape) in about[part].items():
            tensor = loaded[part][name] if loaded else torch.empty(shape, dtype=getattr(torch, kind))
            yield part, name, ranks.broadcast_tensor(tensor.to(ranks.device))
