"""The lengths of the lines that a model was trained on: how much text it can translate at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MAX_SENTENCES: Final = 8  # lines with more are counted with those of 8
PERCENTILES: Final = (50, 95, 99)  # percentiles of the token counts of lines with the same number of sentences
USUAL: Final = PERCENTILES.index(95)
MIN_SHARE: Final = 0.05  # share of the training lines; rarer lengths were not learned well enough


@dataclass(frozen=True)
class LineLengths:
    """Lengths of training lines, in sentences and in tokens of the source.

    `shares[n - 1]` is the share of lines with n sentences, and `tokens[n - 1]` has the percentiles of their tokens.
    `longest` is the longest line of all. `ratio` has the 0.5th and 99.5th percentile of target per source tokens.
    """

    longest: int
    shares: tuple[float, ...]
    tokens: tuple[tuple[int, ...], ...]
    ratio: tuple[float, float]

    @classmethod
    def measure(
        cls, sentences: Sequence[int], source: Sequence[int], target: Sequence[int], longest: int
    ) -> LineLengths:
        """Build the record from lines, each with its number of sentences and of tokens on both sides."""
        import numpy as np

        counts, tokens = np.clip(sentences, 1, MAX_SENTENCES), np.asarray(source)
        groups = [tokens[counts == n] for n in range(1, int(counts.max()) + 1)]
        ratios = (np.asarray(target) + 1) / (tokens + 1)  # with EOS tokens, which also keeps it finite
        low, high = np.percentile(ratios, [0.5, 99.5])
        return cls(
            longest,
            tuple(round(len(group) / len(tokens), 5) for group in groups),
            tuple(
                tuple(int(p) for p in np.percentile(group, PERCENTILES)) if len(group) else (0, 0, 0)
                for group in groups
            ),
            (round(float(low), 3), round(float(high), 3)),
        )

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> LineLengths:
        """Parse the record of `model.json`; raise ValueError if it is malformed."""
        try:
            tokens = tuple(tuple(map(int, row)) for row in table["tokens"])
            low, high = map(float, table["ratio"])
            found = cls(int(table["longest"]), tuple(map(float, table["shares"])), tokens, (low, high))
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"line_lengths: {type(error).__name__} {error}") from None
        if len(found.shares) != len(tokens) or any(len(row) != len(PERCENTILES) for row in tokens):
            raise ValueError("line_lengths: shares and tokens do not match")
        return found

    def supports(self, n_sentences: int, n_tokens: int) -> bool:
        """Whether enough training lines had this many sentences, with a usual number of tokens."""
        if n_sentences > len(self.shares) or self.shares[n_sentences - 1] < MIN_SHARE:
            return False
        return n_tokens <= self.tokens[n_sentences - 1][USUAL]


def common_lengths(records: Iterable[LineLengths | None]) -> LineLengths | None:
    """The record that all models share; None if they differ or are incomplete."""
    distinct = set(records)
    return distinct.pop() if len(distinct) == 1 else None
