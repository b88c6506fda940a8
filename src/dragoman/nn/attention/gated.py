"""A gate on each attention head, to remove heads or to measure their importance."""

from __future__ import annotations

from torch import Tensor

from dragoman.nn.attention.function import Attended, AttentionFunction, MakesKeys, attend_made, made_keys
from dragoman.nn.attention.sees import Sees
from dragoman.nn.layout import Layout


class Gated(MakesKeys):
    """Wrap an attention function and multiply each head's output by a gate: 1 keeps the head, 0 removes it.

    `gates` are `[H]`, or `[B, H]` for separate gates per sentence (Michel et al., 2019). A gate of 0 is equivalent to
    zeros in the head's columns of W^O.
    """

    def __init__(self, function: AttentionFunction, gates: Tensor) -> None:
        super().__init__()
        self.function, self.gates = function, gates

    def keys(self, k: Tensor, layout: Layout) -> Tensor:
        """The keys of the wrapped function."""
        return made_keys(self.function, k, layout)

    def attend(
        self, q: Tensor, keys: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend with the wrapped function, then apply the gates; the weights do not change."""
        attended = attend_made(self.function, q, keys, v, sees, dropout=dropout, weights=weights)
        return Attended(attended.output * self.gates[..., None, None], attended.weights)
