"""The simpler simple recurrent unit (SSRU), an alternative to self-attention in the decoder (Kim et al., 2019)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.nn.attention.multi_head import start_projection
from dragoman.nn.attention.sees import Sees
from dragoman.nn.cache import CellCache
from dragoman.nn.layout import Layout, Packed
from dragoman.nn.linear import Linear


class SSRU(nn.Module):
    """f_t = sigmoid(W_f x_t + b_f); c_t = f_t * c_(t-1) + (1 - f_t) * W x_t; the output is max(0, c_t).

    All products are of single tokens, so only element-wise operations depend on the past, and a decoding step costs the
    same at every position.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.value = Linear(d_model, d_model, bias=False)
        self.gate = Linear(d_model, d_model)
        start_projection(self.value)
        start_projection(self.gate)

    def forward(
        self, x: Tensor, sees: Sees, *, cache: CellCache | None = None, weights: list[Tensor] | None = None
    ) -> Tensor:
        """`[..., D]` to `[..., D]`, laid out as `sees.queries`; a cache has the cells of earlier positions.

        It has the parameters of self-attention, but no attention weights, and sees the whole past.
        """
        gate, value = self.gate(x), self.value(x)
        wide = torch.promote_types(gate.dtype, torch.float32)  # a long recurrence needs more than bfloat16
        keep = torch.sigmoid(gate.to(wide))
        new = (1 - keep) * value.to(wide)
        if cache is not None and cache.cells is not None:
            new = torch.cat([new[:, :1] + keep[:, :1] * cache.cells[:, None], new[:, 1:]], dim=1)
        cells = recur(keep, new, sees.queries)
        if cache is not None:
            cache.cells = cells[:, -1]
        return torch.relu(cells).to(value.dtype)


def recur(keep: Tensor, new: Tensor, layout: Layout) -> Tensor:
    """c_t = keep_t * c_(t-1) + new_t within each sentence, from c_(-1) = 0.

    In log2(longest) passes over all tokens: after each pass, a token has the sum over twice as many tokens before it.
    """
    if isinstance(layout, Packed):
        keep = keep * (layout.position > 0)[:, None]  # a sentence does not continue the one before it
        return _double(keep[None], new[None], layout.longest)[0]
    return _double(keep, new, new.shape[1])


def _double(keep: Tensor, new: Tensor, longest: int) -> Tensor:
    distance = 1
    while distance < longest:
        new = torch.cat([new[:, :distance], new[:, distance:] + keep[:, distance:] * new[:, :-distance]], dim=1)
        keep = torch.cat([keep[:, :distance], keep[:, distance:] * keep[:, :-distance]], dim=1)
        distance *= 2
    return new
