"""Scaled dot-product attention within a band: time and memory grow with the length, not its square.

Section 4 proposes it for very long sequences: "self-attention could be restricted to considering only a neighborhood of
size r". Queries are grouped into blocks as wide as the band, and a block sees its own keys and those of both
neighbors.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.nn.attention.function import softmax_of_shown
from dragoman.nn.attention.sees import Sees

MIN_BLOCK: int = 16  # positions; smaller products are not worth their overhead


def banded_scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, sees: Sees, radius: int, dropout: float = 0.0) -> Tensor:
    """`[B, H, L, V]` from queries and keys of one sequence, under a rule that shows nothing beyond `radius`."""
    length, block = q.shape[2], max(radius, MIN_BLOCK)
    blocks = -(-length // block)
    padding = blocks * block - length
    queries = F.pad(q, (0, 0, 0, padding)).reshape(*q.shape[:2], blocks, block, -1)  # [B, H, blocks, block, K]
    keys, values = (
        F.pad(x, (0, 0, block, block + padding)).unfold(2, 3 * block, block).transpose(-1, -2) for x in (k, v)
    )  # [B, H, blocks, 3 * block, K]
    scores = queries @ keys.mT * q.shape[-1] ** -0.5
    weights = softmax_of_shown(scores, _shown(sees, blocks, block, q.device)).to(v.dtype)
    mixed = F.dropout(weights, dropout) @ values if dropout else weights @ values
    return mixed.flatten(2, 3)[:, :, :length]


def _shown(sees: Sees, blocks: int, block: int, device: torch.device) -> Tensor:
    """`[B or 1, 1, blocks, block, 3 * block]`: the mask of each block, True shows."""
    first = torch.arange(blocks, device=device)[:, None, None] * block
    query = first + torch.arange(block, device=device)[:, None]
    key = first + torch.arange(-block, 2 * block, device=device)
    grid = sees.keys.grid
    shown = (sees.rule(query, key) & (key >= 0) & (key < grid.size))[None, None]
    if grid.lengths is None:
        return shown
    return shown & (key < grid.lengths[:, None, None, None])[:, None]
