"""Map a vocabulary to our order: special tokens first, then other tokens in their order, language tokens last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from dragoman.text.imported.tokenizer import KIND, ImportedTokenizer, serialize_tokenizer
from dragoman.text.special_tokens import BOS, N_SPECIAL

BLOCKED_LOGIT: Final = -30.0
"""Added to the logit of a BOS that copies another token, so that its probability is negligible."""


@dataclass(frozen=True)
class SpecialIds:
    """The source ids of the special tokens; `start` is the decoder's first input."""

    pad: int
    start: int
    eos: int
    unk: int


@dataclass(frozen=True)
class VocabularyMapping:
    """`rows[i]` is the source id of our id i; `tokens` are all tokens but special and language tokens."""

    rows: list[int]
    tokens: list[str]
    languages: tuple[str, ...]
    silent: list[int]
    copied: bool  # whether BOS is a copy of another token

    def of_rows(self, tensor: Tensor) -> Tensor:
        """Reorder a tensor that has a row for each token."""
        return tensor[torch.tensor(self.rows)]

    def bias(self, source: Tensor | None) -> Tensor | None:
        """Reorder the output bias; if BOS is a copy, add a bias that blocks it."""
        if source is None and not self.copied:
            return None
        bias = torch.zeros(max(self.rows) + 1) if source is None else source
        ours = self.of_rows(bias)
        if self.copied:
            ours[BOS] += BLOCKED_LOGIT
        return ours

    def tokenizer(self, toolkit: str, cut: str, model: str, unknown: str = "") -> ImportedTokenizer:
        """Make the tokenizer of these tokens."""
        data = serialize_tokenizer(toolkit, cut, model, self.tokens, unknown, self.silent)
        return ImportedTokenizer(KIND, data, self.languages)


def map_vocabulary(
    names: Sequence[str], special: SpecialIds, languages: Mapping[str, int] | None = None, silent: Sequence[int] = ()
) -> VocabularyMapping:
    """Map the tokens of a vocabulary, in the order of their ids, to our order.

    `languages` are the ids of language tokens by code; `silent` are the ids of tokens that decode to nothing.
    """
    by_code = languages or {}
    first = [special.pad, special.start, special.eos, special.unk]
    placed = {*first, *by_code.values()}
    rest = [number for number in range(len(names)) if number not in placed]
    rows = [*first, *rest, *by_code.values()]
    ours = {number: N_SPECIAL + i for i, number in enumerate(rest)}
    return VocabularyMapping(
        rows,
        [names[number] for number in rest],
        tuple(by_code),
        [ours[number] for number in silent if number in ours],
        copied=special.start in (special.pad, special.eos, special.unk),
    )
