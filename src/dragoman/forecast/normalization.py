"""Instance normalization (RevIN; Kim et al., 2022): remove the level of a window, and restore it in the output."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

EPSILON = 1e-5


@dataclass(frozen=True)
class Level:
    """Mean and deviation of each window, `[B, C, 1]`."""

    mean: Tensor
    deviation: Tensor


class NoNormalization(nn.Module):
    """Leave windows as they are."""

    def measure(self, past: Tensor) -> Level:
        """A mean of 0 and a deviation of 1."""
        return Level(torch.zeros_like(past[..., :1]), torch.ones_like(past[..., :1]))

    def normalize(self, x: Tensor, level: Level) -> Tensor:
        """`x` unchanged."""
        return x

    def restore(self, y: Tensor, level: Level) -> Tensor:
        """`y` unchanged."""
        return y


class InstanceNormalization(NoNormalization):
    """Normalize each window by its own mean and deviation; with `affine`, a learned scale and shift per column."""

    def __init__(self, columns: int, affine: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(columns)) if affine else None
        self.bias = nn.Parameter(torch.zeros(columns)) if affine else None

    def measure(self, past: Tensor) -> Level:
        """Mean and deviation of the past `[B, C, L]`; gradients do not flow through them."""
        variance, mean = torch.var_mean(past.detach(), -1, correction=0, keepdim=True)
        return Level(mean, (variance + EPSILON).sqrt())

    def normalize(self, x: Tensor, level: Level) -> Tensor:
        """`x [B, C, L]` around 0 with a deviation of 1."""
        x = (x - level.mean) / level.deviation
        if self.weight is None or self.bias is None:
            return x
        return x * self.weight[:, None] + self.bias[:, None]

    def restore(self, y: Tensor, level: Level) -> Tensor:
        """Predictions `[B, C, T, Q]` back at the window's level."""
        if self.weight is not None and self.bias is not None:
            y = (y - self.bias[:, None, None]) / (self.weight[:, None, None] + EPSILON**2)
        y = y * level.deviation[..., None] + level.mean[..., None]
        return y if self.weight is None else y.sort(-1).values  # a negative scale turns quantiles around
