"""Embeddings and the softmax that shares their matrix, section 3.4."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import ShapeError


class Embeddings(nn.Module):
    """The source's and the target's embeddings, scaled by sqrt(d_model), and the projection to the vocabulary.

    `tie` says which share a matrix: "all" three, as in the paper; the "target"'s embedding and the projection; "none".
    A shared matrix is one parameter with one name, so that it is counted once and saved once.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        d_model: int,
        tie: Literal["all", "target", "none"] = "all",
    ) -> None:
        super().__init__()
        match tie:
            case "all":
                if source_vocabulary != target_vocabulary:
                    raise ShapeError(
                        f"tie='all' shares one matrix between source and target, but their vocabularies have "
                        f"{source_vocabulary} and {target_vocabulary} pieces; use tie='target' or one shared vocabulary"
                    )
                sizes = {"shared": source_vocabulary}
                self.names = ("shared", "shared", "shared")
            case "target":
                sizes = {"source": source_vocabulary, "target": target_vocabulary}
                self.names = ("source", "target", "target")
            case "none":
                sizes = {"source": source_vocabulary, "target": target_vocabulary, "output": target_vocabulary}
                self.names = ("source", "target", "output")
        self.scale = d_model**0.5
        # Entries of standard deviation 1/sqrt(d_model) have unit variance after scaling, and give logits near it.
        self.tables = nn.ParameterDict(
            {name: nn.Parameter(torch.randn(size, d_model) * d_model**-0.5) for name, size in sizes.items()}
        )

    def source(self, ids: Tensor) -> Tensor:
        """Source ids `[...]` to `[..., D]`."""
        rows: Tensor = F.embedding(ids, self._table(0)) * self.scale
        return rows

    def target(self, ids: Tensor) -> Tensor:
        """Target ids `[...]` to `[..., D]`."""
        rows: Tensor = F.embedding(ids, self._table(1)) * self.scale
        return rows

    def logits(self, hidden: Tensor) -> Tensor:
        """The decoder's output `[..., D]` to a score for each piece, `[..., V]`."""
        return F.linear(hidden, self.projection())

    def projection(self) -> Tensor:
        """The matrix of `logits`."""
        return self._table(2)

    def _table(self, use: int) -> Tensor:
        table: Tensor = self.tables[self.names[use]]
        return table
