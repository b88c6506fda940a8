"""Where a token stands in its sentence, section 3.5: codes added to the embeddings, behind one seam."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from dragoman.nn.layout import Layout
from dragoman.nn.position.learned import LearnedPositions
from dragoman.nn.position.sinusoidal import SinusoidalPositions, sinusoid


class PositionCode(Protocol):
    """What the model needs of a position code."""

    def __call__(self, x: Tensor, layout: Layout) -> Tensor:
        """`x [..., D]` with each token's place in its sentence written into it."""


class NoPositions(nn.Module):
    """No code at all, to see what the model does without one: its encoder then reads a bag of words."""

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` as it is."""
        return x


__all__ = ["LearnedPositions", "NoPositions", "PositionCode", "SinusoidalPositions", "sinusoid"]
