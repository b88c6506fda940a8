"""Quantiles that never cross, and the losses of forecasts."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def ordered_quantiles(raw: Tensor, median: int) -> Tensor:
    """Quantiles from raw outputs `[..., Q]`: the median as it is, and positive distances from it to both sides."""
    center = raw[..., median : median + 1]
    above = center + F.softplus(raw[..., median + 1 :]).cumsum(-1)
    below = center - F.softplus(raw[..., :median]).flip(-1).cumsum(-1).flip(-1)
    return torch.cat([below, center, above], -1)


def pinball_loss(predicted: Tensor, actual: Tensor, levels: Tensor) -> Tensor:
    """The mean over quantiles of max(q e, (q - 1) e), with e = actual - predicted; `[...]` for `[..., Q]`."""
    error = actual[..., None] - predicted
    return torch.maximum(levels * error, (levels - 1) * error).mean(-1)
