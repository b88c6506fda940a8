"""Normalization and the residual connection around each sub-layer, sections 3.1 and 5.4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from dragoman.nn.dropout import Dropout
from dragoman.nn.kernels.residual_norm import add_and_norm, fuses_residual_norm


class Norm(Protocol):
    """A norm as the residual connection uses it."""

    def __call__(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """`x [..., D]` normalized; `real [...]` is True at tokens and False at padding."""


class LayerNorm(nn.LayerNorm):
    """Each token by its own mean and variance (Ba et al., 2016); padding cannot matter to it."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        """Normalize each vector by itself."""
        return super().forward(x)


class BatchNorm(nn.Module):
    """Each feature by its mean and variance over the tokens of the batch (Ioffe & Szegedy, 2015).

    Statistics are taken over real tokens only: padding would distort them by as much as the batch happens to hold. They
    still depend on which sentences share a batch, and in training leak a trace of later tokens; with the running
    statistics of evaluation, tokens are independent again. Ranks of a distributed run keep their own statistics.
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
        """Mean and variance over real tokens, folded into the running ones (the variance there without its bias)."""
        flat = x.float().flatten(0, -2)
        kept = torch.ones_like(flat[:, :1]) if real is None else real.expand(x.shape[:-1]).reshape(-1, 1).float()
        count = kept.sum().clamp(min=1.0)
        mean = (flat * kept).sum(0) / count
        variance = ((flat - mean).square() * kept).sum(0) / count
        with torch.no_grad():
            self.running_mean.lerp_(mean, self.momentum)
            self.running_variance.lerp_(variance * count / (count - 1).clamp(min=1.0), self.momentum)
        return mean, variance


class Residual(Protocol):
    """The residual connection around a sub-layer."""

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], real: Tensor | None = None) -> Tensor:
        """Combine `x` with the sub-layer's output; `real` is True at tokens and False at padding."""


class PostNorm(nn.Module):
    """The paper's: LayerNorm(x + Dropout(Sublayer(x)))."""

    def __init__(self, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], real: Tensor | None = None) -> Tensor:
        """Add, then normalize; the result has the precision of the products."""
        y = sublayer(x)
        if (
            self.training
            and torch.compiler.is_compiling()
            and isinstance(self.norm, LayerNorm)
            and fuses_residual_norm(x, y)
        ):
            return add_and_norm(x, y, self.norm, self.dropout.p)
        return self.norm(x + self.dropout(y), real).to(y.dtype)


class PreNorm(nn.Module):
    """A departure that trains deep stacks without warm-up: x + Dropout(Sublayer(LayerNorm(x))).

    Nothing normalizes the residual stream, so a stack of these ends with a norm of its own.
    """

    def __init__(self, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], real: Tensor | None = None) -> Tensor:
        """Normalize, then add."""
        y: Tensor = x + self.dropout(sublayer(self.norm(x, real)))
        return y
