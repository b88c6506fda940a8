"""Attention with linear biases (ALiBi; Press et al., 2022): scores fall with distance, each head by its own slope."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.nn.attention.function import Attended, weigh
from dragoman.nn.attention.sees import Sees
from dragoman.nn.kernels.gathered_attention import gathered_attention
from dragoman.nn.position.relative import relative_distances


def alibi_slopes(n_heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ... for n heads if n is a power of two; otherwise those of the next lower power, and more.

    The additional ones are every second slope of twice as many heads, as in the authors' code.
    """
    power = 1 << (n_heads.bit_length() - 1)
    whole = [2.0 ** (-8 * (i + 1) / power) for i in range(power)]
    between = [2.0 ** (-4 * (i + 1) / power) for i in range(0, 2 * power, 2)]
    return whole + between[: n_heads - power]


class LinearBias(nn.Module):
    """The scaled dot product minus slope times distance; nothing is learned, and any length works.

    Press et al. attend backward only; in an encoder, both directions are treated alike.
    """

    slopes: Tensor

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(alibi_slopes(n_heads)), persistent=False)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend by content and distance; weights are returned on request."""
        if sees.sparse is not None and sees.step is None and not weights:
            lengths = sees.keys.grid.lengths
            return Attended(gathered_attention(q, k, v, lengths, sees.sparse, slopes=self.slopes, dropout=dropout))
        bias = -self.slopes[:, None, None] * relative_distances(sees, q.device).abs()
        attended = weigh(q @ k.mT * q.shape[-1] ** -0.5 + bias, v, sees, dropout)
        return attended if weights else Attended(attended.output)
