"""Windows of a series as the trainer's workload."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from dragoman.arrays import Int64Array
from dragoman.config.forecast import ForecasterRecipe
from dragoman.forecast.data.windows import WindowBatch, WindowLoader, Windows
from dragoman.forecast.loss import ForecastLoss
from dragoman.forecast.model import Forecaster
from dragoman.training.distributed.ranks import Ranks


@dataclass(frozen=True)
class ForecastWorkload:
    """Windows of the training part, and the loss of forecasts."""

    windows: Windows
    starts: Int64Array
    recipe: ForecasterRecipe
    ranks: Ranks
    figure: str = "mse"
    curve: tuple[str, str] = ("loss", "loss per value, standardized")

    def loader(self, state: int) -> WindowLoader:
        """This rank's batches from a state of the loader on."""
        columns = len(self.windows.values)
        ranks = self.ranks
        return WindowLoader(self.starts, self.recipe.forecast, columns, rank=ranks.rank, world=ranks.world, state=state)

    def loss(self, model: nn.Module) -> nn.Module:
        """The forecaster with its loss."""
        assert isinstance(model, Forecaster)
        return ForecastLoss(model, self.windows)

    def to_device(self, batch: WindowBatch, device: torch.device) -> WindowBatch:
        """The batch on the device."""
        return batch.to(device)

    def to_graph(self, batch: WindowBatch) -> WindowBatch:
        """The batch as it is."""
        return batch

    def empty_batch(self, device: torch.device) -> WindowBatch:
        """A batch of one window: its gradients are dropped, and no rank is ever without windows."""
        return WindowBatch(torch.zeros(1, dtype=torch.int64, device=device), 0, 0, 0)

    def advice(self, directory: Path, step: int) -> str:
        """How to end a run early."""
        return f"add `--set train.steps={step}` to end it there"
