"""Where a token stands in its sentence, section 3.5: codes added to the embeddings, behind one seam.

Codes that are told to attention instead (relative, rotary, linear biases) are attention functions, and stand in that
seam; nothing is added to the embeddings then.
"""

from __future__ import annotations

from typing import Protocol

from torch import Tensor, nn

from dragoman.nn.layout import Layout
from dragoman.nn.position.learned import LearnedPositions
from dragoman.nn.position.linear_bias import LinearBias
from dragoman.nn.position.relative import RelativePositions
from dragoman.nn.position.rotary import RotaryPositions
from dragoman.nn.position.sinusoidal import SinusoidalPositions, sinusoid
from dragoman.nn.position.syntax import SyntaxPositions


class PositionCode(Protocol):
    """What the model needs of a position code."""

    def __call__(self, x: Tensor, layout: Layout) -> Tensor:
        """`x [..., D]` with each token's place in its sentence written into it."""


class NoPositions(nn.Module):
    """No code at all, to see what the model does without one: its encoder then reads a bag of words."""

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` as it is."""
        return x


__all__ = [
    "LearnedPositions",
    "LinearBias",
    "NoPositions",
    "PositionCode",
    "RelativePositions",
    "RotaryPositions",
    "SinusoidalPositions",
    "SyntaxPositions",
    "sinusoid",
]
