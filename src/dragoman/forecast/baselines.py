"""Baselines that a forecaster must beat: the value one season ago, and a linear model fitted in closed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from dragoman.arrays import Int64Array
from dragoman.forecast.data.windows import Windows

RIDGE: Final = 1e-3  # times the mean of the diagonal
MAX_FITTED: Final = 200_000  # windows of one column; more are sampled evenly
CHUNK: Final = 4_096


@dataclass(frozen=True)
class SeasonalNaive:
    """Repeat the last season of the past."""

    season: int
    horizon: int

    def __call__(self, past: Tensor) -> Tensor:
        """`[..., L]` to `[..., T]`; a past shorter than a season repeats as a whole."""
        season = min(self.season, past.shape[-1])
        last = past[..., past.shape[-1] - season :]
        return last[..., torch.arange(self.horizon, device=past.device) % season]


@dataclass(frozen=True)
class LinearModel:
    """One matrix from the past to the horizon, both relative to the last value (as NLinear; Zeng et al., 2023)."""

    weight: Tensor  # [L + 1, T], the last row is the intercept

    @classmethod
    def fit(cls, windows: Windows, starts: Int64Array) -> LinearModel:
        """Ridge regression over all columns together, from the normal equations in float64."""
        columns = len(windows.values)
        most = max(1, MAX_FITTED // columns)
        if len(starts) > most:
            starts = starts[np.linspace(0, len(starts) - 1, most).astype(int)]
        size = windows.look_back + 1
        device = windows.values.device
        product = torch.zeros(size, size, dtype=torch.float64, device=device)
        target = torch.zeros(size, windows.horizon, dtype=torch.float64, device=device)
        for first in range(0, len(starts), CHUNK // columns + 1):
            chosen = torch.from_numpy(starts[first : first + CHUNK // columns + 1]).to(device)
            past, future = windows.past(chosen)[0].flatten(0, 1), windows.future(chosen).flatten(0, 1)
            inputs = relative_inputs(past).double()
            product += inputs.T @ inputs
            target += inputs.T @ (future - past[:, -1:]).double()
        ridge = RIDGE * product.diagonal().mean()
        product += ridge * torch.eye(size, dtype=torch.float64, device=device)
        return cls(torch.linalg.solve(product, target).float())

    def __call__(self, past: Tensor) -> Tensor:
        """`[..., L]` to `[..., T]`."""
        return relative_inputs(past) @ self.weight + past[..., -1:]


def without_calendar(system: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A baseline as a function of past and calendar, with one output per value."""
    return lambda past, calendar: system(past)[..., None]


def relative_inputs(past: Tensor) -> Tensor:
    """The past minus its last value, and a one for the intercept."""
    return torch.cat([past - past[..., -1:], torch.ones_like(past[..., :1])], -1)
