"""The residual connection around each sublayer, sections 3.1 and 5.4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from dragoman.nn.dropout import Dropout
from dragoman.nn.kernels.residual_norm import add_and_norm, fuses_residual_norm
from dragoman.nn.norm import LayerNorm, Norm


class Residual(Protocol):
    """The residual connection around a sublayer."""

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], real: Tensor | None = None) -> Tensor:
        """Combine `x` with the sublayer's output; `real` is True at tokens and False at padding."""


class PostNorm(nn.Module):
    """Post-norm, as in the paper: LayerNorm(x + Dropout(Sublayer(x)))."""

    def __init__(self, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], real: Tensor | None = None) -> Tensor:
        """Add, then normalize; the result has the precision of the products."""
        y = sublayer(x)
        compiled = self.training and torch.compiler.is_compiling()
        if compiled and isinstance(self.norm, LayerNorm) and fuses_residual_norm(x, y):
            return add_and_norm(x, y, self.norm, self.dropout.p)
        return self.norm(x + self.dropout(y), real).to(y.dtype)


class PreNorm(nn.Module):
    """Pre-norm, which trains deep stacks without warm-up: x + Dropout(Sublayer(LayerNorm(x))).

    Nothing normalizes the residual stream, so a pre-norm stack ends with a final norm.
    """

    def __init__(self, norm: Norm, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor], real: Tensor | None = None) -> Tensor:
        """Normalize, then add."""
        y: Tensor = x + self.dropout(sublayer(self.norm(x, real)))
        return y
