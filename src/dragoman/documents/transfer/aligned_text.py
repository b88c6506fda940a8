"""A translation whose words are aligned with those of its source, by links and by attention."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from operator import ge
from typing import Any, Final

from dragoman.documents.transfer.ranges import Range
from dragoman.documents.transfer.words import Links

FLATNESS: Final = 0.5  # exponent of attention weights
AGREEMENT: Final = 2.0  # exponent of the share that a target token has in the attention to a source token


@dataclass(frozen=True)
class AlignedUnit:
    """A sentence that was translated by itself: the ranges of its parts in source and target.

    `weights [T, S]`, if known, is the attention of each of its target tokens to its source tokens. `source_tokens` are
    the places of the latter in the sentence, which begins at `start` in the source; `token_parts` are pairs of one of
    the former and a target part that it is in, in order, without those that are punctuation.
    """

    source: Range
    target: Range
    weights: Any = None
    source_tokens: Sequence[Range] = ()
    start: int = 0
    token_parts: Sequence[Range] = ()

    @cached_property
    def shares(self) -> Any:
        """How much of each target token belongs to each source token: `[T, S]`, with rows that sum to 1 or 0.

        A source token shares itself among the target tokens that attend to it: a weight counts for more if it is large
        in its column too. Without that, words such as articles, which attend here and there, join every pair.
        """
        import numpy as np

        weights = np.asarray(self.weights, dtype=np.float64)
        if any(starmap(ge, self.source_tokens)):  # invisible ones
            weights = weights * [start < end for start, end in self.source_tokens]
        weights = weights**FLATNESS
        weights *= (weights / np.maximum(weights.sum(0), 1e-12)) ** AGREEMENT
        weights /= np.maximum(weights.sum(1, keepdims=True), 1e-12)
        return weights

    @cached_property
    def eos_shares(self) -> Any:
        """How much of each target token belongs to the source's EOS token, and so to no word, `[T]`."""
        import numpy as np

        return np.maximum(1 - np.asarray(self.weights, dtype=np.float64).sum(1), 0) ** FLATNESS

    def share(self, start: int, end: int) -> Any:
        """The share of attention of each target token on these characters of the source, `[T]`.

        A token that is inside in part counts in part.
        """
        start, end = start - self.start, end - self.start
        first = bisect_right(self.source_tokens, start, key=lambda token: token[1])
        columns, parts = list[int](), list[float]()
        for i, (low, high) in enumerate(self.source_tokens[first:], first):
            if low < high:
                if low >= end:
                    break
                columns.append(i)
                parts.append((min(high, end) - max(low, start)) / (high - low))
        if parts == [1.0]:
            return self.shares[:, columns[0]]
        return self.shares[:, columns] @ parts


@dataclass(frozen=True)
class AlignedText:
    """A translation with the parts of its words and of its source's, and the links between them, by sentences."""

    source: str
    target: str
    source_parts: Sequence[Range]
    target_parts: Sequence[Range]
    links: Links
    units: Sequence[AlignedUnit]
    marks: Sequence[bool]  # which target parts are punctuation


def separators(aligned: AlignedText) -> list[tuple[int, int, int]]:
    """What is before, between and after sentences: start and end in the source, start in the target.

    Only those that are the same in both.
    """
    places, before = list[tuple[Range, Range]](), (0, 0)
    for unit in aligned.units:
        if unit.source[0] < unit.source[1] and unit.target[0] < unit.target[1]:
            start = aligned.source_parts[unit.source[0]][0], aligned.target_parts[unit.target[0]][0]
            places.append((before, start))
            before = aligned.source_parts[unit.source[1] - 1][1], aligned.target_parts[unit.target[1] - 1][1]
    places.append((before, (len(aligned.source), len(aligned.target))))
    return [
        (low[0], high[0], low[1])
        for low, high in places
        if low[0] < high[0] and aligned.source[low[0] : high[0]] == aligned.target[low[1] : high[1]]
    ]
