"""Additive attention (Bahdanau et al., 2015), the alternative to the dot product in section 3.2.1."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.nn.attention.function import Attended, MakesKeys, weigh
from dragoman.nn.attention.sees import Sees
from dragoman.nn.layout import Layout


class Additive(MakesKeys):
    """Score each pair with a feed-forward network of one hidden layer: w . tanh(A q + B k).

    Queries and keys have separate matrices, so they may differ in size. Each head has its own network. Scoring holds
    `[B, H, T, S, hidden]` values at once: the cost that the paper mentions, in memory as well as time.
    """

    def __init__(self, d_query: int, d_key: int | None = None, d_hidden: int | None = None, n_heads: int = 1) -> None:
        super().__init__()
        d_key = d_key if d_key is not None else d_query
        d_hidden = d_hidden if d_hidden is not None else d_query
        self.query = nn.Parameter(torch.empty(n_heads, d_query, d_hidden))
        self.key = nn.Parameter(torch.empty(n_heads, d_key, d_hidden))
        self.vector = nn.Parameter(torch.empty(n_heads, d_hidden, 1))
        for parameter in (self.query, self.key, self.vector):
            for head in parameter.data:
                nn.init.xavier_uniform_(head)

    def keys(self, k: Tensor, layout: Layout) -> Tensor:
        """B k, `[B, H, S, hidden]`, the same for all queries."""
        return k @ self.key

    def scores(self, q: Tensor, keys: Tensor) -> Tensor:
        """`[B, H, T, S]` from `q [B, H, T, d_query]` and the result of `keys`."""
        hidden = torch.tanh((q @ self.query).unsqueeze(-2) + keys.unsqueeze(-3))
        return (hidden @ self.vector.unsqueeze(-3)).squeeze(-1)

    def attend(
        self, q: Tensor, keys: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend with the additive score; weights are returned on request."""
        attended = weigh(self.scores(q, keys), v, sees, dropout)
        return attended if weights else Attended(attended.output)
