"""The loss of a forecaster, as a sum over predicted values, in standardized units."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.config.forecast import ForecastRecipe
from dragoman.forecast.data.windows import WindowBatch, Windows
from dragoman.forecast.model import Forecaster
from dragoman.forecast.quantiles import pinball_loss
from dragoman.training.loss.cross_entropy import LossSum


def forecast_errors(predicted: Tensor, actual: Tensor, recipe: ForecastRecipe, levels: Tensor) -> Tensor:
    """The loss of each value: squared, absolute or pinball, `[...]` for predictions `[..., Q]`.

    `levels` are the recipe's quantiles on the device; a CUDA graph cannot copy them there.
    """
    if recipe.quantiles:
        return pinball_loss(predicted, actual, levels)
    error = predicted[..., 0] - actual
    return error.square() if recipe.loss == "mse" else error.abs()


class ForecastLoss(nn.Module):
    """A forecaster with its loss as one module, and the series it is trained on as buffers on its device."""

    levels: Tensor
    values: Tensor
    calendar: Tensor

    def __init__(self, model: Forecaster, windows: Windows) -> None:
        super().__init__()
        self.model, self.settings = model, model.settings
        levels = torch.tensor(self.settings.quantiles, device=windows.values.device)
        self.register_buffer("levels", levels, persistent=False)
        self.register_buffer("values", windows.values, persistent=False)
        self.register_buffer("calendar", windows.calendar, persistent=False)

    def forward(self, batch: WindowBatch) -> LossSum:
        """The loss over all predicted values of a batch, and beside it the squared error of the point forecast."""
        windows = Windows(self.values, self.calendar, self.settings.look_back, self.settings.horizon)
        past, calendar = windows.past(batch.starts)
        future = windows.future(batch.starts)
        predicted = self.model(past, calendar, future)
        with torch.no_grad():
            squared = (predicted[..., self.model.median] - future).square().sum()
        return LossSum(forecast_errors(predicted, future, self.settings, self.levels).sum(), squared)
