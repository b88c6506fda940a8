"""Relative positions (Shaw et al., 2018): how far apart two tokens stand, told to attention instead of embeddings."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.nn.attention.function import Attended, softmax_of_shown
from dragoman.nn.attention.sees import Sees


def distances(sees: Sees, device: torch.device) -> Tensor:
    """`[T, S]`: how far after each query each key stands in their sentence, below zero where it stands before it."""
    asking, asked = sees.queries.grid.positions(device), sees.keys.grid.positions(device)
    return asked[None, :] - asking[:, None]


class RelativePositions(nn.Module):
    """The scaled dot product with a vector learned for each distance, added to the keys and another to the values.

    score = q . (k + a[distance]) / sqrt(d_k), output = sum of weight (v + b[distance]). Distances beyond `max_distance`
    count as that one, so that any length has a code. The heads of a layer share the vectors.
    """

    def __init__(self, d_k: int, d_v: int, max_distance: int) -> None:
        super().__init__()
        self.max_distance = max_distance
        self.key_table = nn.Parameter(torch.empty(2 * max_distance + 1, d_k))
        self.value_table = nn.Parameter(torch.empty(2 * max_distance + 1, d_v))
        nn.init.xavier_uniform_(self.key_table)
        nn.init.xavier_uniform_(self.value_table)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend by content and distance; the weights exist anyway, and are given only where they were asked for."""
        far = distances(sees, q.device).clamp(-self.max_distance, self.max_distance) + self.max_distance
        key_TSK, value_TSV = self.key_table[far].to(q.dtype), self.value_table[far].to(v.dtype)
        scores = (q @ k.mT + torch.einsum("bhtk,tsk->bhts", q, key_TSK)) * q.shape[-1] ** -0.5
        seen = softmax_of_shown(scores, sees.dense(q.device)).to(v.dtype)
        kept = F.dropout(seen, dropout) if dropout else seen
        output = kept @ v + torch.einsum("bhts,tsv->bhtv", kept, value_TSV)
        return Attended(output, seen if weights else None)
