"""Rotary positions (Su et al., 2021): rotate queries and keys by position, so that products depend on distance."""

from __future__ import annotations

import torch
from torch import Tensor

from dragoman.errors import ShapeError
from dragoman.nn.attention.function import Attended, AttentionFunction, MakesKeys, attend_made, made_keys
from dragoman.nn.attention.sees import Sees
from dragoman.nn.layout import Layout
from dragoman.nn.position.sinusoidal import SinusoidalPositions


def rotate(x: Tensor, code: Tensor) -> Tensor:
    """`x [..., L, K]` with each pair of features rotated by the angle whose sine and cosine `code [L, K]` holds."""
    pairs = x.shape[-1] // 2  # explicit, because -1 is ambiguous for zero tokens
    sine, cosine = code.view(*code.shape[:-1], pairs, 2).unbind(-1)
    even, odd = x.float().view(*x.shape[:-1], pairs, 2).unbind(-1)
    rotated = torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1)
    return rotated.flatten(-2).to(x.dtype)


class RotaryPositions(MakesKeys):
    """Wrap an attention function and rotate queries and keys by their position in the sentence.

    The product of two rotated vectors depends on their distance alone.
    """

    def __init__(self, d_k: int, inner: AttentionFunction) -> None:
        super().__init__()
        if d_k % 2:
            message = f"rotary positions rotate pairs of features, but d_k={d_k} is odd; use an even d_k"
            raise ShapeError(message, code="not_divisible")
        self.angles, self.inner = SinusoidalPositions(d_k), inner

    def keys(self, k: Tensor, layout: Layout) -> Tensor:
        """Rotate the keys; later steps do not change them."""
        return made_keys(self.inner, rotate(k, self.angles.code(layout, k.device)), layout)

    def attend(
        self, q: Tensor, keys: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Rotate the queries, then attend to the rotated keys."""
        rotated = rotate(q, self.angles.code(sees.queries, q.device))
        return attend_made(self.inner, rotated, keys, v, sees, dropout=dropout, weights=weights)
