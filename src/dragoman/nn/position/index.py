"""The two codes that sinusoids are usually explained against: the plain index, and the index divided by the length.

Both are for study. The index grows without bound, so at late positions it drowns the embedding. Divided by the length
it stays below 1, but one step then means another distance in each sentence.
"""

from __future__ import annotations

from torch import Tensor, nn

from dragoman.nn.layout import Layout, Packed


class IndexPositions(nn.Module):
    """The position of a token, 0, 1, 2..., times `scale`, added to every feature."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` plus the index of each token in its sentence."""
        index = layout.grid.positions(x.device)[:, None] * self.scale
        return x + layout.by_column(index.to(x.dtype))


class NormalizedIndexPositions(nn.Module):
    """The position of a token divided by the length of its sentence, added to every feature.

    Only for sentences whose length is known, that is for the source.
    """

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` plus the index of each token, from 0 to below 1."""
        if isinstance(layout, Packed):
            fraction = layout.position / layout.lengths[layout.sentence].clamp(min=1)
        else:
            positions, lengths = layout.positions(x.device), layout.lengths
            fraction = positions / (layout.longest if lengths is None else lengths[:, None].clamp(min=1))
        return x + fraction[..., None].to(x.dtype)
