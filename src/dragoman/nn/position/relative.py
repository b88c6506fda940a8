"""Relative positions (Shaw et al., 2018): distances between tokens enter attention instead of the embeddings."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.nn.attention.function import Attended, softmax_of_shown
from dragoman.nn.attention.sees import Sees
from dragoman.nn.kernels.gathered_attention import gathered_attention


def relative_distances(sees: Sees, device: torch.device) -> Tensor:
    """`[T, S]`: the position of each key minus that of each query."""
    queries, keys = sees.queries.grid.positions(device), sees.key_positions(device)
    return keys[None, :] - queries[:, None]


class RelativePositions(nn.Module):
    """The scaled dot product with learned vectors for each distance, one added to the keys and one to the values.

    score = q . (k + a[distance]) / sqrt(d_k), output = sum of weight (v + b[distance]). Distances are clamped to
    `max_distance`, so any length works. The heads of a layer share the vectors.
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
        """Attend by content and distance; weights are returned on request."""
        if sees.sparse is not None and sees.step is None and not weights:
            lengths, tables = sees.keys.grid.lengths, (self.key_table.to(q.dtype), self.value_table.to(v.dtype))
            return Attended(gathered_attention(q, k, v, lengths, sees.sparse, tables=tables, dropout=dropout))
        index = relative_distances(sees, q.device).clamp(-self.max_distance, self.max_distance) + self.max_distance
        key_TSK, value_TSV = self.key_table[index].to(q.dtype), self.value_table[index].to(v.dtype)
        scores = (q @ k.mT + torch.einsum("bhtk,tsk->bhts", q, key_TSK)) * q.shape[-1] ** -0.5
        attention = softmax_of_shown(scores, sees.dense(q.device)).to(v.dtype)
        dropped = F.dropout(attention, dropout) if dropout else attention
        output = dropped @ v + torch.einsum("bhts,tsv->bhtv", dropped, value_TSV)
        return Attended(output, attention if weights else None)
