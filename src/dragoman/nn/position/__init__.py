"""Positional encodings, section 3.5.

Some are added to the embeddings. Relative, rotary and linear-bias positions enter attention instead: they are attention
functions, and nothing is added to the embeddings.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from dragoman.nn.layout import Layout


class PositionCode(Protocol):
    """A position code, as the model calls it."""

    def __call__(self, x: Tensor, layout: Layout) -> Tensor:
        """`x [..., D]` with the position of each token in its sentence added."""


class NoPositions(nn.Module):
    """No positions, for comparison: the encoder then sees a bag of words."""

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` unchanged."""
        return x
