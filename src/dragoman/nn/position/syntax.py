"""Positions in a dependency tree (after Wang et al., 2019): the depth of a word, in addition to its position."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import ShapeError
from dragoman.nn.layout import Layout
from dragoman.nn.linear import Linear
from dragoman.nn.position.sinusoidal import SinusoidalPositions, sinusoid

N_DEPTHS = 256  # 0 is the root; deeper nodes count as the deepest


class SyntaxPositions(nn.Module):
    """The sinusoid of a token's position, plus the sinusoid of its depth in the tree times a learned matrix.

    Without the matrix, position 3 at depth 5 would have the code of position 5 at depth 3.
    """

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.order = SinusoidalPositions(d_model)
        self.register_buffer("table", sinusoid(torch.arange(N_DEPTHS), d_model), persistent=False)
        self.depth = Linear(d_model, d_model, bias=False)
        nn.init.normal_(self.depth.weight, std=d_model**-0.5)  # as large as the sinusoid itself

    def forward(self, x: Tensor, layout: Layout) -> Tensor:
        """`x` plus the codes of each token's position and depth."""
        if layout.depths is None:
            raise ShapeError(
                "model.positions='syntax' needs the depth of each source token in its tree; give trees with the "
                "sentences, for example with --source-trees",
                code="missing_trees",
            )
        if layout.depths.shape != x.shape[:-1]:
            shapes = f"{tuple(layout.depths.shape)} do not match tokens of shape {tuple(x.shape[:-1])}"
            raise ShapeError(f"depths of shape {shapes}; give one depth per token")
        positioned: Tensor = self.order(x, layout)
        return positioned + F.embedding(layout.depths.clamp(0, N_DEPTHS - 1), self.codes()).to(x.dtype)

    def codes(self) -> Tensor:
        """The code of each depth, `[256, D]`."""
        codes: Tensor = self.depth(self.table)
        return codes
