"""Normalization: the paper's layer norm, and batch norm for comparison."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn


class Norm(Protocol):
    """A norm, as the residual connection calls it."""

    def __call__(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """`x [..., D]` normalized; `real [...]` is True at tokens and False at padding."""


class LayerNorm(nn.LayerNorm):
    """Normalize each token by its own mean and variance (Ba et al., 2016); padding has no effect."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Normalize each vector separately."""
        return super().forward(x)


class BatchNorm(nn.Module):
    """Normalize each feature by its mean and variance over the tokens of the batch (Ioffe & Szegedy, 2015).

    Statistics cover real tokens only: padding would distort them. They still depend on which sentences share a batch,
    and in training they leak a little information about later tokens; with the running statistics of evaluation, tokens
    are independent again. Each rank of a distributed run keeps its own statistics.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, d_model: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_variance", torch.ones(d_model))

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Normalize by the batch in training, by the running statistics in evaluation."""
        mean, variance = self._measure(x, real) if self.training else (self.running_mean, self.running_variance)
        y = (x.float() - mean) * torch.rsqrt(variance + self.eps) * self.weight + self.bias
        return y.to(x.dtype)

    def _measure(self, x: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        """Mean and variance over real tokens; also updates the running statistics (with the unbiased variance)."""
        flat = x.float().flatten(0, -2)
        kept = torch.ones_like(flat[:, :1]) if real is None else real.expand(x.shape[:-1]).reshape(-1, 1).float()
        count = kept.sum().clamp(min=1.0)
        mean = (flat * kept).sum(0) / count
        variance = ((flat - mean).square() * kept).sum(0) / count
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_variance.lerp_(variance * count / (count - 1).clamp(min=1.0), self.momentum)
        return mean, variance
