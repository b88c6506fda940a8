"""A gate on each head, placed in the seam of the attention function: to remove heads, or to ask what they are worth."""

from __future__ import annotations

from torch import Tensor

from dragoman.nn.attention.function import Attended, AttentionFunction, MakesKeys, attend_made, made_keys
from dragoman.nn.attention.sees import Sees
from dragoman.nn.layout import Layout


class Gated(MakesKeys):
    """Another attention function, of which each head's output is multiplied by a number: 1 leaves it, 0 removes it.

    `gates` are `[H]`, or `[B, H]` for sentences with gates of their own (Michel et al., 2019). What a head gives is
    all that W^O reads of it, so that 0 is the same as zeros in its columns of W^O.
    """

    def __init__(self, function: AttentionFunction, gates: Tensor) -> None:
        super().__init__()
        self.function, self.gates = function, gates

    def keys(self, k: Tensor, layout: Layout) -> Tensor:
        """As the function inside makes them."""
        return made_keys(self.function, k, layout)

    def attend(
        self, q: Tensor, keys: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """As the function inside does, then the gates; the weights are what they were."""
        attended = attend_made(self.function, q, keys, v, sees, dropout=dropout, weights=weights)
        return Attended(attended.output * self.gates[..., None, None], attended.weights)
