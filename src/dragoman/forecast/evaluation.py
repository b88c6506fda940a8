"""Errors of forecasts over all windows of a part: MSE and MAE in standardized units, as in the literature."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dragoman.arrays import Int64Array
from dragoman.config.forecast import ForecastRecipe
from dragoman.forecast.data.windows import Windows
from dragoman.forecast.loss import forecast_errors
from dragoman.forecast.model import Forecaster

EVALUATED_ROWS = {"cpu": 1_024, "cuda": 8_192}  # windows times columns at a time
Predict = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Errors:
    """Mean errors over all windows, time steps and columns; `mae_of` is in the units of each column."""

    mse: float
    mae: float
    mse_of: Mapping[str, float] = field(default_factory=dict)
    mae_of: Mapping[str, float] = field(default_factory=dict)
    loss: float | None = None  # what the model minimizes
    coverage: float | None = None  # share of values between the lowest and the highest quantile


def measure_errors(
    predict: Predict,
    windows: Windows,
    starts: Int64Array,
    recipe: ForecastRecipe,
    *,
    columns: Sequence[str] = (),
    deviation: Sequence[float] = (),
    check: Callable[[], None] = lambda: None,
) -> Errors:
    """The errors of a function from past and calendar to predictions `[B, C, T, Q]`, over windows by their starts."""
    device, count = windows.values.device, len(windows.values)
    size = max(1, EVALUATED_ROWS.get(device.type, 1_024) // count)
    squared, absolute = (torch.zeros(count, dtype=torch.float64, device=device) for _ in range(2))
    loss = inside = torch.zeros((), dtype=torch.float64, device=device)
    levels = torch.tensor(recipe.quantiles, device=device)
    median = recipe.quantiles.index(0.5) if recipe.quantiles else 0
    for first in range(0, len(starts), size):
        check()
        chosen = torch.from_numpy(starts[first : first + size]).to(device)
        predicted, future = predict(*windows.past(chosen)), windows.future(chosen)
        quantiles = predicted.shape[-1] > 1
        error = predicted[..., median if quantiles else 0] - future
        squared += error.double().square().sum((0, 2))
        absolute += error.double().abs().sum((0, 2))
        if quantiles or not recipe.quantiles:
            loss = loss + forecast_errors(predicted, future, recipe, levels).double().sum()
        if quantiles:
            inside = inside + ((future >= predicted[..., 0]) & (future <= predicted[..., -1])).double().sum()
    values = len(starts) * windows.horizon
    total = values * count
    mse_of, mae_of = (squared / values).tolist(), (absolute / values).tolist()
    return Errors(
        float(squared.sum()) / total,
        float(absolute.sum()) / total,
        dict(zip(columns, mse_of, strict=False)),
        {name: mae * scale for name, mae, scale in zip(columns, mae_of, deviation, strict=False)},
        float(loss) / total if quantiles or not recipe.quantiles else None,
        float(inside) / total if quantiles else None,
    )


@dataclass(frozen=True)
class ValidationScores:
    """The figures of an evaluation during training."""

    figures: Mapping[str, float]
    samples: Sequence[tuple[str, str, str]] = ()


class ForecastValidation:
    """Evaluates a forecaster on the validation windows of a run, or on evenly spaced ones if they are limited."""

    def __init__(self, windows: Windows, starts: Int64Array, recipe: ForecastRecipe) -> None:
        if 0 < recipe.valid_windows < len(starts):
            starts = starts[np.linspace(0, len(starts) - 1, recipe.valid_windows).astype(int)]
        self.windows, self.starts, self.recipe = windows, starts, recipe

    def __call__(self, model: nn.Module, check: Callable[[], None]) -> ValidationScores:
        """Loss, MSE and MAE of forecasts from the past alone."""
        assert isinstance(model, Forecaster)
        with torch.inference_mode():
            errors = measure_errors(model.predict, self.windows, self.starts, self.recipe, check=check)
        assert errors.loss is not None
        return ValidationScores({"loss": errors.loss, "mse": errors.mse, "mae": errors.mae})


@dataclass(frozen=True)
class ForecastReport:
    """The errors of a model and of the baselines over the windows of one part of a file."""

    model: str
    data: str
    part: str
    windows: int
    horizon: int
    look_back: int
    systems: Mapping[str, Errors]

    def to_json(self) -> str:
        """All figures as JSON."""
        table: dict[str, Any] = asdict(self)
        return json.dumps(table, indent=1, ensure_ascii=False) + "\n"

    def table(self) -> str:
        """A line for each system."""
        width = max(map(len, self.systems))
        lines = [f"{'':{width}}     MSE     MAE"]
        for name, errors in self.systems.items():
            covered = "" if errors.coverage is None or name != self.model else f"  {100 * errors.coverage:.1f} % inside"
            lines.append(f"{name:{width}}  {errors.mse:6.4f}  {errors.mae:6.4f}{covered}")
        return "\n".join(lines)
