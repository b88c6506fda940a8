"""Learned positional embeddings (Gehring et al., 2017), row (E) of the paper's Table 3."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.errors import ShapeError
from dragoman.nn.layout import Layout


class LearnedPositions(nn.Module):
    """A learned vector for each position up to a limit."""

    def __init__(self, max_positions: int, d_model: int) -> None:
        super().__init__()
        # Small compared with the unit variance of the scaled embeddings, so that words dominate at first.
        self.table = nn.Parameter(torch.randn(max_positions, d_model) * d_model**-0.5)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` plus the vector of each token's position in its sentence."""
        if layout.longest > len(self.table):
            raise ShapeError(
                f"a sentence of {layout.longest} tokens is too long: {len(self.table)} positions were learned; use "
                "shorter sentences, or train with a larger model.max_positions or model.positions='sinusoidal'",
                code="text_too_long",
            )
        columns = layout.grid.positions(x.device)
        return x + layout.by_column(self.table[columns].to(x.dtype))
