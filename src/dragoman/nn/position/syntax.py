"""Positions in a dependency tree (after Wang et al., 2019): how deep a word stands, beside its place in the text."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import ShapeError
from dragoman.nn.layout import Layout
from dragoman.nn.linear import Linear
from dragoman.nn.position.sinusoidal import SinusoidalPositions, sinusoid

DEPTHS = 256  # 0 is the root; what is deeper counts as the deepest


class SyntaxPositions(nn.Module):
    """The sinusoid of a token's place in the sentence, and the sinusoid of its depth in the tree times a matrix.

    Without the matrix, which is learned, place 3 at depth 5 would have the code of place 5 at depth 3.
    """

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.order = SinusoidalPositions(d_model)
        self.register_buffer("table", sinusoid(torch.arange(DEPTHS), d_model), persistent=False)
        self.depth = Linear(d_model, d_model, bias=False)
        nn.init.normal_(self.depth.weight, std=d_model**-0.5)  # as large as the sinusoid itself

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` with the codes of each token's place and depth added."""
        if layout.depths is None:
            raise ShapeError(
                "model.positions='syntax' needs to know how deep in its tree each token stands, but the layout of the "
                "source has no depths; give trees with the sentences, such as --source-trees"
            )
        if layout.depths.shape != x.shape[:-1]:
            raise ShapeError(
                f"depths of shape {tuple(layout.depths.shape)} came for tokens of shape {tuple(x.shape[:-1])}; give "
                "one for each token"
            )
        placed: Tensor = self.order(x, layout)
        return placed + F.embedding(layout.depths.clamp(0, DEPTHS - 1), self.codes()).to(x.dtype)

    def codes(self) -> Tensor:
        """What is added at each depth, `[256, D]`."""
        codes: Tensor = self.depth(self.table)
        return codes
