"""Scaled dot-product attention, section 3.2.1: a readable reference, and the fused kernel with the same results."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.nn.attention.function import Attended, softmax_of_shown, weigh
from dragoman.nn.attention.sees import Sees
from dragoman.nn.kernels.gathered_attention import gathered_attention

MIN_BLOCK: int = 16  # positions; smaller products are not worth their overhead


def banded_scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, sees: Sees, radius: int, dropout: float = 0.0) -> Tensor:
    """Attention within one sequence, `[B, H, L, V]`, under a rule that sees nothing beyond `radius`."""
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
    """`[B or 1, 1, blocks, block, 3 * block]`: the mask of each block, True where a query sees."""
    first = torch.arange(blocks, device=device)[:, None, None] * block
    query = first + torch.arange(block, device=device)[:, None]
    key = first + torch.arange(-block, 2 * block, device=device)
    grid = sees.keys.grid
    shown = (sees.rule(query, key) & (key >= 0) & (key < grid.size))[None, None]
    if grid.lengths is None:
        return shown
    return shown & (key < grid.lengths[:, None, None, None])[:, None]


def scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, sees: Sees, dropout: float = 0.0) -> Attended:
    """softmax(q k^T / sqrt(d_k)) v, with its weights."""
    scores = q @ k.mT * q.shape[-1] ** -0.5  # unit variance keeps the softmax in its responsive range
    return weigh(scores, v, sees, dropout)


def fused_scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, sees: Sees, dropout: float = 0.0) -> Tensor:
    """The same with PyTorch's kernels, which never store the weights and so cannot return them.

    Under a sparse rule, only visible keys are gathered; under another one that sees no further than a band, the band.
    """
    if sees.sparse is not None and sees.step is None:
        return gathered_attention(q, k, v, sees.keys.grid.lengths, sees.sparse, dropout=dropout)
    if sees.band is not None:
        return banded_scaled_dot_product(q, k, v, sees, sees.band, dropout)
    mask = sees.mask if sees.step is None else sees.dense(q.device)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout, is_causal=sees.triangle)


class ScaledDotProduct(nn.Module):
    """The paper's attention as an attention function: requesting the weights selects a kernel that computes them."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend with the scaled dot product."""
        if weights:
            return scaled_dot_product(q, k, v, sees, dropout)
        return Attended(fused_scaled_dot_product(q, k, v, sees, dropout))
