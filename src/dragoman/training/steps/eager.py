"""Steps that are over when they return: on any device, with any layout, in any number of processes."""

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
from dragoman.training.distributed.sharding import Sharded, own, whole
from dragoman.training.optim.optimizer import Optimizer
from dragoman.training.steps.base import nothing, present, seed_of
from dragoman.training.steps.outcome import Outcome


def wrapped(task: nn.Module, recipe: TrainRecipe, ranks: Ranks) -> nn.Module:
    """The task as this run's processes call it; one that is cut over them is so already."""
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


class WaitedSteps:
    """The steps of one run, or of one process's part in it; used as `QueuedSteps` is."""

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
        self.over: list[Outcome] = []

    def settle_buckets(self) -> None:
        """Let DistributedDataParallel lay out its buckets before the first step, in every run alike.

        It does so after its first backward pass, and among three processes or more the layout decides the order of
        sums: without this, the step after a resume would differ in its last bits.
        """
        if isinstance(self.task, DistributedDataParallel) and not self.recipe.compile:
            self.model.eval()  # so that batch norm counts nothing
            for _ in range(2):
                self.task(nothing(self.ranks.device)).smoothed.backward()
            self.optimizer.forget_gradients()

    def put(self, batches: list[Batch], step: int, target: float, source: float, rate: float) -> None:
        """Do one step, with all that belongs to it."""
        self.step = step
        ranks, sums = self.ranks, torch.zeros(2, dtype=torch.float64, device=self.ranks.device)
        for number, batch in enumerate(batches):
            torch.manual_seed(seed_of(self.recipe.seed, step, number, ranks.rank))
            with self._exchange(number + 1 == len(batches)):
                with self.autocast():
                    loss = self.task(present(batch, ranks.device))
                # The mean that is taken over processes is undone here: we divide once, by the tokens of all.
                (loss.smoothed * (ranks.world / target)).backward()
            sums += torch.stack([loss.smoothed.detach(), loss.plain]).double()
        norm = self._clipped_norm()
        smoothed, plain, spoilt = ranks.sum(*sums.tolist(), float(not math.isfinite(norm)))
        # The same sums everywhere, so that all skip or none does.
        norm = math.nan if spoilt and math.isfinite(norm) else norm
        outcome = Outcome(step, target, source, smoothed, plain, norm)
        if outcome.finite:
            self.optimizer.step(rate)
            self._follow()
        self.optimizer.forget_gradients()
        self.over.append(outcome)

    def settled(self, all_of_them: bool) -> list[Outcome]:
        """What is over: all that were put."""
        over, self.over = self.over, []
        return over

    def _exchange(self, now: bool) -> AbstractContextManager[None]:
        """Sum gradients over processes after the last micro-batch of a step alone."""
        if isinstance(self.task, Sharded):
            self.task.exchange(now)
        elif isinstance(self.task, DistributedDataParallel) and not now:
            quiet: AbstractContextManager[None] = self.task.no_sync()
            return quiet
        return nullcontext()

    def _clipped_norm(self) -> float:
        """The norm of all gradients, before they are clipped to the recipe's."""
        norm = nn.utils.get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None], foreach=True)
        if self.recipe.clip:
            nn.utils.clip_grads_with_norm_(self.model.parameters(), self.recipe.clip, norm, foreach=True)
        return float(whole(norm))

    def _follow(self) -> None:
        """Let the moving average follow the weights."""
        if self.ema:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    own(self.ema[name]).lerp_(own(parameter), 1 - self.recipe.ema)
