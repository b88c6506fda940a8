"""Their tokens as ours: the four marks first, the tokens in their own order, and target languages last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from dragoman.text.imported.tokenizer import KIND, ImportedTokenizer, serialize_tokenizer
from dragoman.text.special_tokens import BOS, N_SPECIAL

NEVER: Final = -30.0
"""Added to the logit of a start mark that is a copy of another mark: e^-30 of that one's probability is nothing."""


@dataclass(frozen=True)
class Marks:
    """The ids, there, of what our first four ids mean; `start` is what the decoder is given first."""

    pad: int
    start: int
    eos: int
    unk: int


@dataclass(frozen=True)
class Arranged:
    """`rows[i]` is the id, there, of our id i; `tokens` are the names from our fifth id on, without the languages."""

    rows: list[int]
    tokens: list[str]
    languages: tuple[str, ...]
    silent: list[int]
    copied: bool  # whether the start mark is a copy of another mark

    def of_rows(self, tensor: Tensor) -> Tensor:
        """A tensor with a row for each token, in our order."""
        return tensor[torch.tensor(self.rows)]

    def bias(self, theirs: Tensor | None) -> Tensor | None:
        """The output bias in our order; one that hides the start mark where that is a copy, even if there was none."""
        if theirs is None and not self.copied:
            return None
        bias = torch.zeros(max(self.rows) + 1) if theirs is None else theirs
        ours = self.of_rows(bias)
        if self.copied:
            ours[BOS] += NEVER
        return ours

    def tokenizer(self, toolkit: str, cut: str, model: str, unknown: str = "") -> ImportedTokenizer:
        """The tokenizer of these tokens."""
        data = serialize_tokenizer(toolkit, cut, model, self.tokens, unknown, self.silent)
        return ImportedTokenizer(KIND, data, self.languages)


def arranged(
    names: Sequence[str], marks: Marks, languages: Mapping[str, int] | None = None, silent: Sequence[int] = ()
) -> Arranged:
    """Their tokens, by name in the order of their ids there, in our order.

    `languages` are the ids of tokens that name a target language, by its code; `silent` those that write nothing.
    """
    chosen = languages or {}
    first = [marks.pad, marks.start, marks.eos, marks.unk]
    placed = {*first, *chosen.values()}
    rest = [number for number in range(len(names)) if number not in placed]
    rows = [*first, *rest, *chosen.values()]
    ours = {number: N_SPECIAL + place for place, number in enumerate(rest)}
    return Arranged(
        rows,
        [names[number] for number in rest],
        tuple(chosen),
        [ours[number] for number in silent if number in ours],
        copied=marks.start in (marks.pad, marks.eos, marks.unk),
    )
