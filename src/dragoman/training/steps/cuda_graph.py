"""Training steps as a CUDA graph: compiled once, captured once, and replayed without waiting for the GPU.

The host copies a batch, replays, and reads the result of a step when later ones are already queued. The device checks
whether a step is finite; one that is not leaves weights and moments unchanged. All shapes are fixed, so nothing is
compiled twice. The first step runs as compiled code, and the second is captured. With several GPUs, the all-reduces
are part of the graph.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dragoman.config import TrainRecipe
from dragoman.native.algorithm_file import AlgorithmFile
from dragoman.native.cache import cache_directory, private_directory
from dragoman.nn.kernels import gpu_matmul as products
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.optim.bf16_adam import Bf16Adam, Bf16Weights, WithWeights, supports_bf16_adam
from dragoman.training.optim.optimizer import Optimizer
from dragoman.training.steps.eager import StepResult, add_tiles, derive_seed

MAX_QUEUED: Final = 2  # steps in flight; with more, the host waits for the oldest


def set_compile_cache() -> Path:
    """Set the folders for compiled code, unless the environment does; return the compiler's.

    Where the cache cannot be written, or others could write it, the code is kept for this run only.
    """
    try:
        home = private_directory(cache_directory())
    except OSError:
        home = Path(tempfile.mkdtemp(prefix="dragoman-"))
        atexit.register(shutil.rmtree, home, ignore_errors=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(home / "inductor"))
    os.environ.setdefault("TRITON_CACHE_DIR", str(home / "triton"))
    return Path(os.environ["TORCHINDUCTOR_CACHE_DIR"])


@dataclass
class Slot:
    """Buffers of one step in flight: the batch on the device, and the outputs on the host."""

    tensors: list[Tensor]
    numbers: Tensor  # pinned: learning rate, 1 / target tokens
    outputs: Tensor  # pinned: smoothed, plain, norm
    copied: torch.cuda.Event
    done: torch.cuda.Event


class CudaGraphSteps:
    """The steps of a run: `submit` queues one, `completed` returns the results of earlier ones."""

    def __init__(
        self,
        task: nn.Module,
        optimizer: Optimizer,
        recipe: TrainRecipe,
        autocast: Callable[[], AbstractContextManager[None]],
        ranks: Ranks,
        ema: Mapping[Tensor, Tensor] | None = None,
        stage: Callable[[Any], Any] | None = None,
    ) -> None:
        set_compile_cache()
        from dragoman.training.steps.compilation import compiled  # importing the compiler is slow

        self.ranks, device = ranks, ranks.device
        with autocast():
            kind = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
        self.bf16 = Bf16Weights(task, kind)
        self.adam: Bf16Adam | None = None
        self.task = compiled(WithWeights(task))
        self.parameters = [p for p in task.parameters() if p.requires_grad]
        self.optimizer, self.recipe, self.autocast, self.device = optimizer, recipe, autocast, device
        self.ema = ema if ema is not None else {}
        self.stage = stage if stage is not None else add_tiles
        self.stream, self.copying = (torch.cuda.Stream(device) for _ in range(2))  # type: ignore[no-untyped-call]
        self.graph: torch.cuda.CUDAGraph | None = None
        self.warmed_up = False
        self.first_seconds = 0.0
        self.numbers = torch.zeros(2, dtype=torch.float32, device=device)
        self.outputs = torch.zeros(3, dtype=torch.float64, device=device)
        self.batches: list[Any] = []
        self.slots: deque[Slot] = deque()
        self.in_flight: deque[tuple[int, float, float, Slot]] = deque()

    def submit(self, batches: Sequence[Any], step: int, target: float, source: float, rate: float) -> None:
        """Queue one step without waiting for it."""
        began = time.perf_counter()
        batches = [self.stage(batch) for batch in batches]
        if not self.batches:
            self._allocate(batches)
        slot = self.slots.popleft()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))  # an evaluation may have used the weights
        with torch.cuda.stream(self.copying):
            torch.cuda.current_stream().wait_event(slot.done)  # the last step that used it has been read
            for buffer, tensor in zip(slot.tensors, batch_tensors(batches), strict=True):
                buffer.copy_(tensor, non_blocking=True)
            slot.copied.record()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(slot.copied)
            torch._foreach_copy_(batch_tensors(self.batches), slot.tensors)
            slot.numbers.copy_(torch.tensor([rate, 1 / max(target, 1.0)]))
            self.numbers.copy_(slot.numbers, non_blocking=True)
            torch.cuda.manual_seed(derive_seed(self.recipe.seed, step, 0, self.ranks.rank))
            self._run()
            slot.outputs.copy_(self.outputs, non_blocking=True)
            slot.done.record()
        self.in_flight.append((step, target, source, slot))
        if not self.first_seconds:
            slot.done.synchronize()
            self.first_seconds = time.perf_counter() - began

    def completed(self, wait: bool) -> list[StepResult]:
        """Results in order; waits while `MAX_QUEUED` steps are in flight, or with `wait` for all."""
        results = []
        while self.in_flight and (wait or len(self.in_flight) >= MAX_QUEUED):
            step, target, source, slot = self.in_flight.popleft()
            slot.done.synchronize()
            smoothed, plain, norm = slot.outputs.tolist()
            results.append(StepResult(step, target, source, smoothed, plain, norm))
            self.slots.append(slot)
        return results

    def _allocate(self, batches: Sequence[Any]) -> None:
        """Allocate the tensors that the graph reads."""
        self.stream.wait_stream(torch.cuda.current_stream(self.device))  # the seed that initialized the weights
        self.batches = [batch.to(self.device) for batch in batches]
        if supports_bf16_adam(self.bf16, self.optimizer, len(batches)):
            self.adam = Bf16Adam(self.bf16, self.optimizer)
            self.bf16.refresh()
        for _ in range(MAX_QUEUED + 1):
            self.slots.append(
                Slot(
                    [torch.empty_like(tensor, device=self.device) for tensor in batch_tensors(batches)],
                    torch.zeros(2).pin_memory(),
                    torch.zeros(3, dtype=torch.float64).pin_memory(),
                    *(torch.cuda.Event() for _ in range(2)),  # type: ignore[no-untyped-call]
                )
            )
        torch.cuda.synchronize(self.device)

    def _run(self) -> None:
        if self.graph is not None:
            self.graph.replay()
        elif not self.warmed_up:
            self.warmed_up = True
            with products.tuning(AlgorithmFile()):
                self._work()
            self.optimizer.clear_gradients()
        else:
            graph = torch.cuda.CUDAGraph()
            # Thread-local: the loader pins memory meanwhile.
            with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
                self._work()
            if self.adam is not None:
                self.adam.upload_table()
            self.graph = graph
            graph.replay()

    def _work(self) -> None:
        """The whole step, on the device alone."""
        rate, share = self.numbers.unbind()
        sums = torch.zeros(2, dtype=torch.float64, device=self.device)
        if self.adam is None:
            self.bf16.refresh()
        for number, batch in enumerate(self.batches):
            with self.autocast():
                loss = self.task(batch, self.bf16.named)
            (loss.smoothed * share).backward()
            if self.adam is None:
                self.bf16.collect(add=number > 0)
            sums += torch.stack([loss.smoothed, loss.plain]).detach().double()  # outputs must hold no autograd graph
        if self.ranks.world > 1:
            dist.all_reduce(sums)
            all_reduce_gradients([*self.parameters, *(self.bf16.copies if self.adam is not None else ())])
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
        self.outputs.copy_(torch.cat([sums, norm.double()[None]]))


def all_reduce_gradients(weights: Iterable[Tensor]) -> None:
    """Sum the gradients over ranks in place, with one all-reduce per precision."""
    by_dtype: dict[torch.dtype, list[Tensor]] = {}
    for weight in weights:
        if weight.grad is not None:
            by_dtype.setdefault(weight.grad.dtype, []).append(weight)
    for group in by_dtype.values():
        flat = torch.cat([weight.grad.flatten() for weight in group if weight.grad is not None])
        dist.all_reduce(flat)
        parts = flat.split_with_sizes([weight.numel() for weight in group])
        for weight, part in zip(group, parts, strict=True):
            weight.grad = part.view_as(weight)


def total_norm(*groups: list[Tensor]) -> Tensor:
    """The norm of all gradients, in float32; each group has one precision."""
    norms = [norm for group in groups if group for norm in torch._foreach_norm(group, 2, torch.float32)]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(norms))
    return norm


def batch_tensors(batches: Sequence[Any]) -> list[Tensor]:
    """The tensors of some batches, in one order."""
    found: list[Any] = [getattr(batch, f.name) for batch in batches for f in fields(batch)]
    return [value for value in found if isinstance(value, Tensor)]
