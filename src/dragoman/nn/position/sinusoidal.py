"""Sines and cosines of different frequencies, section 3.5."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dragoman.nn.layout import Layout


def sinusoid(positions: Tensor, d_model: int) -> Tensor:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)) and PE(pos, 2i+1) its cosine, `[..., D]` for positions `[...]`.

    In float64 where the device has it: float32 would lose the high frequencies at positions in the thousands.
    """
    exact = torch.float32 if positions.device.type == "mps" else torch.float64
    even = torch.arange(0, d_model, 2, device=positions.device, dtype=exact)
    angle = positions[..., None].to(exact) * 10000 ** (-even / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2).float()


class SinusoidalPositions(nn.Module):
    """A fixed code for any length, also beyond what was trained on; it has no parameters."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` with the code of each token's place in its sentence added."""
        columns = layout.grid.positions(x.device)
        return x + layout.by_column(sinusoid(columns, self.d_model).to(x.dtype))
