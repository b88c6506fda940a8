"""Scaled dot-product attention, section 3.2.1: a reference to read, and the fused kernel with the same numbers."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.nn.attention.banded import banded_scaled_dot_product
from dragoman.nn.attention.function import Attended, weigh
from dragoman.nn.attention.sees import Sees


def scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, sees: Sees, dropout: float = 0.0) -> Attended:
    """softmax(q k^T / sqrt(d_k)) v, with its weights."""
    scores = q @ k.mT * q.shape[-1] ** -0.5  # unit variance keeps the softmax in its responsive range
    return weigh(scores, v, sees, dropout)


def fused_scaled_dot_product(q: Tensor, k: Tensor, v: Tensor, sees: Sees, dropout: float = 0.0) -> Tensor:
    """The same by PyTorch's kernels, which never store the weights and so cannot return them.

    If everything visible lies in a band, only the band is computed.
    """
    if sees.band is not None:
        return banded_scaled_dot_product(q, k, v, sees, sees.band, dropout)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=sees.mask, dropout_p=dropout, is_causal=sees.triangle)


class ScaledDotProduct(nn.Module):
    """The paper's attention as an attention function: asking for the weights chooses the kernel that has them."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend by the scaled dot product."""
        if weights:
            return scaled_dot_product(q, k, v, sees, dropout)
        return Attended(fused_scaled_dot_product(q, k, v, sees, dropout))
