"""Eager training steps: on any device, with any layout, in any number of processes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from dragoman.config import TrainRecipe
from dragoman.data.batch import Batch
from dragoman.training.distributed.ranks import Ranks
from dragoman.training.distributed.sharding import Sharded, full_tensor, local_shard
from dragoman.training.optim.optimizer import Optimizer
from dragoman.training.steps.base import derive_seed, empty_batch, to_device
from dragoman.training.steps.result import StepResult


def wrap_task(task: nn.Module, recipe: TrainRecipe, ranks: Ranks) -> nn.Module:
    """The task compiled and wrapped for several processes, as the recipe says; a sharded one already is."""
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
    ) -> None:
        self.task, self.model, self.optimizer, self.recipe, self.autocast = task, model, optimizer, recipe, autocast
        self.ranks, self.ema, self.step = ranks, ema, 0
        self.results: list[StepResult] = []

    def fix_bucket_order(self) -> None:
        """Have DistributedDataParallel lay out its buckets before the first step, in every run alike.

        It does so after its first backward pass, and with three processes or more the layout decides the order of sums:
        without this, the step after a resume would differ in its last bits.
        """
        if isinstance(self.task, DistributedDataParallel) and not self.recipe.compile:
            self.model.eval()  # batch norm must not count these passes
            for _ in range(2):
                self.task(empty_batch(self.ranks.device)).smoothed.backward()
            self.optimizer.clear_gradients()

    def submit(self, batches: list[Batch], step: int, target: float, source: float, rate: float) -> None:
        """Run one step."""
        self.step = step
        ranks, sums = self.ranks, torch.zeros(2, dtype=torch.float64, device=self.ranks.device)
        for number, batch in enumerate(batches):
            torch.manual_seed(derive_seed(self.recipe.seed, step, number, ranks.rank))
            with self._gradient_sync(number + 1 == len(batches)):
                with self.autocast():
                    loss = self.task(to_device(batch, ranks.device))
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
        """Clip the gradients as the recipe says; return their norm before clipping."""
        norm = nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None], foreach=True)
        if self.recipe.clip:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), self.recipe.clip, norm, foreach=True)
        return float(full_tensor(norm))

    def _update_ema(self) -> None:
        """Update the moving average of the weights."""
        if self.ema:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    local_shard(self.ema[name]).lerp_(local_shard(parameter), 1 - self.recipe.ema)
