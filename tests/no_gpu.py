"""What stands in for streams, events and graphs where there is no GPU, so that cuda_graph steps run as they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from dragoman.training import workload
from dragoman.training.steps import cuda_graph


class Nothing:
    """A stream or an event where there is none."""

    def __init__(self, *_: Any) -> None: ...
    def wait_event(self, *_: Any) -> None: ...
    def wait_stream(self, *_: Any) -> None: ...
    def record(self) -> None: ...
    def synchronize(self) -> None: ...


def stand_in(patch: Callable[[Any, str, Any], None] = setattr) -> None:
    """Put them in place, for good or by a `monkeypatch.setattr`."""
    for name in ("Stream", "Event", "current_stream"):
        patch(torch.cuda, name, Nothing)
    patch(torch.cuda, "stream", lambda _: nullcontext())
    patch(torch.cuda, "synchronize", lambda *_: None)
    patch(torch.cuda, "manual_seed", torch.manual_seed)
    patch(torch.Tensor, "pin_memory", lambda tensor: tensor)
    patch(torch, "compile", lambda module, **_: module)
    for module in (cuda_graph, workload):
        patch(module, "add_tiles", lambda batch: batch)

    def run(steps: cuda_graph.CudaGraphSteps) -> None:
        steps._work()
        steps.optimizer.clear_gradients()

    patch(cuda_graph.CudaGraphSteps, "_run", run)
