"""Embeddings and the softmax that shares their matrix, section 3.4."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.errors import ShapeError


class Embeddings(nn.Module):
    """The source's and the target's embeddings, scaled by sqrt(d_model), and the projection to the vocabulary.

    `tables` names the matrices of source, target and projection; equal names share one matrix, as all three do in the
    paper. A shared matrix is one parameter with one name: counted once and saved once. `bias` adds a number to each
    token's logit: not in the paper, but in some models of other toolkits.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        d_model: int,
        tables: tuple[str, str, str] = ("shared", "shared", "shared"),
        bias: bool = False,
    ) -> None:
        super().__init__()
        if tables[0] in tables[1:] and source_vocabulary != target_vocabulary:
            raise ShapeError(
                f"vocabularies of {source_vocabulary} and {target_vocabulary} tokens cannot share a matrix; use "
                "model.tie='target' or 'none', or a shared vocabulary",
                code="vocabulary_mismatch",
            )
        self.names = tables
        sizes = dict(zip(tables, (source_vocabulary, target_vocabulary, target_vocabulary), strict=True))
        self.scale = d_model**0.5
        # With a standard deviation of 1/sqrt(d_model), scaled embeddings and initial logits have about unit variance.
        self.tables = nn.ParameterDict(
            {name: nn.Parameter(torch.randn(size, d_model) * d_model**-0.5) for name, size in sizes.items()}
        )
        self.output_bias = nn.Parameter(torch.zeros(target_vocabulary)) if bias else None

    def source(self, ids: Tensor) -> Tensor:
        """Embed source ids `[...]` as `[..., D]`."""
        return self._rows(ids, 0, "source")

    def target(self, ids: Tensor) -> Tensor:
        """Embed target ids `[...]` as `[..., D]`."""
        return self._rows(ids, 1, "target")

    def logits(self, hidden: Tensor) -> Tensor:
        """Project the decoder's output `[..., D]` to a score for each token, `[..., V]`."""
        return F.linear(hidden, self.projection(), self.output_bias)

    def projection(self) -> Tensor:
        """The matrix of `logits`."""
        return self._table(2)

    def _rows(self, ids: Tensor, use: int, side: str) -> Tensor:
        table = self._table(use)
        if torch.compiler.is_compiling():
            rows: Tensor = F.embedding(ids, table) * self.scale
            return rows
        try:  # checked only after a failure: checking first would synchronize a GPU
            rows = F.embedding(ids, table) * self.scale
        except (IndexError, RuntimeError):
            check_ids(ids, len(table), side)
            raise
        return rows

    def _table(self, use: int) -> Tensor:
        table: Tensor = self.tables[self.names[use]]
        return table


def check_ids(ids: Tensor, vocabulary: int, side: str) -> None:
    """Raise an error if ids have the wrong type or are not in the vocabulary."""
    if ids.dtype not in (torch.int64, torch.int32):
        message = f"{side} ids have the type {ids.dtype}; expected torch.int64 or torch.int32"
        raise ShapeError(message, code="wrong_type")
    if ids.numel() and ids.device.type == "cpu":
        lowest, highest = int(ids.min()), int(ids.max())
        if lowest < 0 or highest >= vocabulary:
            wrong = lowest if lowest < 0 else highest
            message = f"{side} id {wrong} is not in the vocabulary of {vocabulary} tokens: ids 0 to {vocabulary - 1}"
            raise ShapeError(message, code="unknown_id")
