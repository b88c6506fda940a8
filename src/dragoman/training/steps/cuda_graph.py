"""Steps on a GPU without waiting for it: one compiled graph, recorded once as a CUDA graph and replayed.

The host copies a batch, replays, and reads what a step came to when later ones are already queued. Whether a step is
finite is decided on the device: one that is not leaves weights and moments as they were. All shapes are fixed, so that
nothing is ever compiled again. The first step runs as it is compiled, and the second is recorded. Where several
processes have a GPU each, the sums over them are part of the graph.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dragoman.config import TrainRecipe
from dragoman.data.batch import Batch
from dragoman.native.build import cache_directory
from dragoman.nn.kernels import gpu_matmul as products
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.optim import bf16_adam as half_adam
from dragoman.training.optim.bf16_adam import HalfAdam
from dragoman.training.optim.bf16_weights import Halves, WithWeights
from dragoman.training.optim.optimizer import Optimizer
from dragoman.training.steps.base import seed_of, with_tiles
from dragoman.training.steps.outcome import Outcome

AHEAD: Final = 2  # steps on their way at which the host waits for the older one


def suits(recipe: TrainRecipe, ranks: Ranks, batch: Batch, model: nn.Module) -> bool:
    """Whether steps can be queued: packed batches, compiled, on a GPU, an optimizer that can skip by itself.

    PyTorch does not compile its recurrent layers.
    """
    fixed = ranks.device.type == "cuda" and recipe.compile and batch.layout == "packed"
    plain = not any(isinstance(part, nn.RNNBase) for part in model.modules())
    return fixed and recipe.optimizer in ("adam", "adamw") and plain


def keep_compiled_code() -> Path:
    """Have what is compiled kept for later runs, where nothing else is set; the folder."""
    home = cache_directory()
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(home / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(home / "triton"))
    return Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])


@dataclass
class Slot:
    """Places for one step on its way: the batch's copy on the device, and what comes back."""

    tensors: list[Tensor]
    numbers: Tensor  # pinned: learning rate, 1 / target tokens
    found: Tensor  # pinned: smoothed, plain, norm
    copied: torch.cuda.Event
    done: torch.cuda.Event


class QueuedSteps:
    """The steps of one run; `put` queues one, `settled` gives those that are over."""

    def __init__(
        self,
        task: nn.Module,
        optimizer: Optimizer,
        recipe: TrainRecipe,
        autocast: Callable[[], AbstractContextManager[None]],
        ranks: Ranks,
        ema: Mapping[Tensor, Tensor] | None = None,
    ) -> None:
        keep_compiled_code()
        from dragoman.training.steps.compilation import compiled  # here, because importing the compiler takes its time

        self.ranks, device = ranks, ranks.device
        with autocast():
            kind = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
        self.halves = Halves(task, kind)
        self.adam: HalfAdam | None = None
        self.task = compiled(WithWeights(task))
        self.parameters = [p for p in task.parameters() if p.requires_grad]
        self.optimizer, self.recipe, self.autocast, self.device = optimizer, recipe, autocast, device
        self.ema = ema if ema is not None else {}
        self.stream, self.copying = (torch.cuda.Stream(device) for _ in range(2))  # type: ignore[no-untyped-call]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.begun = False
        self.first_seconds = 0.0
        self.numbers = torch.zeros(2, dtype=torch.float32, device=device)
        self.found = torch.zeros(3, dtype=torch.float64, device=device)
        self.batches: list[Batch] = []
        self.slots: deque[Slot] = deque()
        self.waiting: deque[tuple[int, float, float, Slot]] = deque()

    def put(self, batches: list[Batch], step: int, target: float, source: float, rate: float) -> None:
        """Queue one step; the host does not wait for it."""
        began = time.perf_counter()
        batches = [with_tiles(batch) for batch in batches]
        if not self.batches:
            self._settle(batches)
        slot = self.slots.popleft()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))  # an evaluation may have lent the weights out
        with torch.cuda.stream(self.copying):
            torch.cuda.current_stream().wait_event(slot.done)  # the last step that used it has been read
            for place, tensor in zip(slot.tensors, tensors_of(batches), strict=True):
                place.copy_(tensor, non_blocking=True)
            slot.copied.record()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(slot.copied)
            torch._foreach_copy_(tensors_of(self.batches), slot.tensors)
            slot.numbers.copy_(torch.tensor([rate, 1 / max(target, 1.0)]))
            self.numbers.copy_(slot.numbers, non_blocking=True)
            torch.cuda.manual_seed(seed_of(self.recipe.seed, step, 0, self.ranks.rank))
            self._run()
            slot.found.copy_(self.found, non_blocking=True)
            slot.done.record()
        self.waiting.append((step, target, source, slot))
        if not self.first_seconds:
            slot.done.synchronize()
            self.first_seconds = time.perf_counter() - began

    def settled(self, all_of_them: bool) -> list[Outcome]:
        """What is over, in order; waits where `AHEAD` steps are on their way, or for all."""
        over = []
        while self.waiting and (all_of_them or len(self.waiting) >= AHEAD):
            step, target, source, slot = self.waiting.popleft()
            slot.done.synchronize()
            smoothed, plain, norm = slot.found.tolist()
            over.append(Outcome(step, target, source, smoothed, plain, norm))
            self.slots.append(slot)
        return over

    def _settle(self, batches: list[Batch]) -> None:
        """Make the tensors that the graph reads, once and for all steps."""
        self.stream.wait_stream(torch.cuda.current_stream(self.device))  # what made the weights
        self.batches = [batch.to(self.device) for batch in batches]
        if half_adam.suits(self.halves, self.optimizer, len(batches)):
            self.adam = HalfAdam(self.halves, self.optimizer)
            self.halves.refresh()
        for _ in range(AHEAD + 1):
            self.slots.append(
                Slot(
                    [torch.empty_like(tensor, device=self.device) for tensor in tensors_of(batches)],
                    torch.zeros(2).pin_memory(),
                    torch.zeros(3, dtype=torch.float64).pin_memory(),
                    *(torch.cuda.Event() for _ in range(2)),  # type: ignore[no-untyped-call]
                )
            )
        torch.cuda.synchronize(self.device)

    def _run(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        elif not self.begun:
            self.begun = True
            with products.trying():
                self._work()
            self.optimizer.forget_gradients()
        else:
            graph = torch.cuda.CUDAGraph()
            # Others' CUDA calls (the loader pins memory meanwhile) are none of the recording's business.
            with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
                self._work()
            if self.adam is not None:
                self.adam.remember()
            self.graph = graph
            graph.replay()

    def _work(self) -> None:
        """The whole step, on the device alone."""
        rate, share = self.numbers.unbind()
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        if self.adam is None:
            self.halves.refresh()
        for number, batch in enumerate(self.batches):
            with self.autocast():
                loss = self.task(batch, self.halves.named)
            (loss.smoothed * share).backward()
            if self.adam is None:
                self.halves.collect(add=number > 0)
            sums += torch.stack([loss.smoothed, loss.plain]).detach().double()  # what is read back holds no graph
        if self.ranks.world > 1:
            dist.all_reduce(sums)
            sum_over_processes([*self.parameters, *(self.halves.half if self.adam is not None else ())])
        norm = total_norm(
            [p.grad for p in self.parameters if p.grad is not None],
            self.adam.gradients() if self.adam is not None else [],
        )
        finite = torch.isfinite(norm) & torch.isfinite(sums[0])
        clip = self.recipe.clip
        divisor = ((norm + 1e-6) / clip).clamp(min=1.0) if clip else torch.ones_like(norm)
        skip = (~finite).float()
        self.optimizer.step_on_device(rate, divisor, skip)
        if self.adam is not None:
            self.adam.step(rate, divisor, skip)
        if self.ema:
            with torch.no_grad():
                for average, weight in self.ema.items():
                    average.lerp_(weight, finite * (1 - self.recipe.ema))
        self.found.copy_(torch.cat([sums, norm.double()[None]]))


def sum_over_processes(weights: Iterable[Tensor]) -> None:
    """The gradients of all processes together, in the place of this one's: those of one precision at once."""
    kinds: dict[torch.dtype, list[Tensor]] = {}
    for weight in weights:
        if weight.grad is not None:
            kinds.setdefault(weight.grad.dtype, []).append(weight)
    for alike in kinds.values():
        together = torch.cat([weight.grad.flatten() for weight in alike if weight.grad is not None])
        dist.all_reduce(together)
        parts = together.split_with_sizes([weight.numel() for weight in alike])
        for weight, part in zip(alike, parts, strict=True):
            weight.grad = part.view_as(weight)


def total_norm(*groups: list[Tensor]) -> Tensor:
    """The norm of all gradients together, in float32; each group is of one precision."""
    norms = [norm for group in groups if group for norm in torch._foreach_norm(group, 2, torch.float32)]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def tensors_of(batches: list[Batch]) -> list[Tensor]:
    """The tensors of some batches, in one order."""
    found: list[Any] = [getattr(batch, f.name) for batch in batches for f in fields(batch)]
    return [value for value in found if isinstance(value, Tensor)]
