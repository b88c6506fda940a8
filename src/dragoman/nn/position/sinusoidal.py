"""Sines and cosines of different frequencies, section 3.5."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.nn.layout import Layout

TABLE_POSITIONS = 512


def sinusoid(positions: Tensor, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and PE(pos, 2i+1) its cosine, `[..., D]` for positions `[...]`.

    Computed in float64 if the device supports it: float32 loses the high frequencies at positions in the thousands.
    """
    exact = torch.float32 if positions.device.type == "mps" else torch.float64
    even = torch.arange(0, d_model, 2, device=positions.device, dtype=exact)
    angle = positions[..., None].to(exact) * 10000 ** (-even / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).float()


class SinusoidalPositions(nn.Module):
    """A fixed code without parameters, for any length, including lengths not seen in training.

    The first `TABLE_POSITIONS` positions are kept in a table, which is not saved with the model.
    """

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.register_buffer("table", sinusoid(torch.arange(TABLE_POSITIONS), d_model), persistent=False)

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` plus the code of each token's position in its sentence."""
        return x + layout.by_column(self.code(layout, x.device).to(x.dtype))

    def code(self, layout: Layout, device: torch.device) -> Tensor:
        """The code of each column of the layout's grid, `[T, D]`."""
        grid = layout.grid
        if grid.longest <= TABLE_POSITIONS:
            return self.table[grid.offset : grid.longest]
        return sinusoid(grid.positions(device), self.d_model)
