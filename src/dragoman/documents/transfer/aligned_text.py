"""A translation whose words are aligned with those of its source, by links and by attention."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import ge, lt
from typing import Any, Final

from dragoman.documents.transfer.ranges import Places, Range
from dragoman.documents.transfer.words import Links, WordParts

FLATNESS: Final = 0.5  # exponent of attention weights
AGREEMENT: Final = 2.0  # exponent of the share that a target token has in the attention to a source token
NO_PLACES: Final = Places([], [])


@dataclass(frozen=True)
class AlignedUnit:
    """A sentence that was translated by itself: the ranges of its parts in source and target.

    `weights [T, S]`, if known, is the attention of each of its target tokens to its source tokens. `source_tokens` are
    the places of the latter in the sentence, which begins at `start` in the source; `token_parts` are pairs of one of
    the former and a target part that it is in, in order, without those that are punctuation. `link` finds the links
    between its parts, which few sentences need if their weights are known.
    """

    source: Range
    target: Range
    weights: Any = None
    source_tokens: Places = NO_PLACES
    start: int = 0
    token_parts: Sequence[Range] = ()
    link: Callable[[], Links] = list

    @cached_property
    def links(self) -> Links:
        """The links between its parts."""
        return self.link()

    @cached_property
    def targets_of(self) -> dict[int, list[int]]:
        """The target parts that each source part is linked to, if any."""
        found = defaultdict[int, list[int]](list)
        for s, t in self.links:
            found[s].append(t)
        return found

    @cached_property
    def sources_of(self) -> dict[int, list[int]]:
        """The source parts that each target part is linked to, if any."""
        found = defaultdict[int, list[int]](list)
        for s, t in self.links:
            found[t].append(s)
        return found

    @cached_property
    def shares(self) -> Any:
        """How much of each target token belongs to each source token: `[T, S]`, with rows that sum to 1 or 0.

        A source token shares itself among the target tokens that attend to it: a weight counts for more if it is large
        in its column too. Without that, words such as articles, which attend here and there, join every pair.
        """
        import numpy as np

        weights = np.asarray(self.weights, dtype=np.float64)
        if any(map(ge, *self.source_tokens)):  # invisible ones
            weights = weights * [*map(lt, *self.source_tokens)]
        weights = weights**FLATNESS
        # np.add.reduce is `sum`, without what the method costs a small array
        weights *= (weights / np.maximum(np.add.reduce(weights, 0), 1e-12)) ** AGREEMENT
        weights /= np.maximum(np.add.reduce(weights, 1, keepdims=True), 1e-12)
        return weights

    @cached_property
    def eos_shares(self) -> Any:
        """How much of each target token belongs to the source's EOS token, and so to no word, `[T]`."""
        import numpy as np

        return np.maximum(1 - np.add.reduce(np.asarray(self.weights, dtype=np.float64), 1), 0) ** FLATNESS

    def share(self, start: int, end: int) -> Any:
        """The share of attention of each target token on these characters of the source, `[T]`.

        A token that is inside in part counts in part.
        """
        start, end = start - self.start, end - self.start
        starts, ends = self.source_tokens
        columns, parts = list[int](), list[float]()
        for i in range(bisect_right(ends, start), len(ends)):
            low, high = starts[i], ends[i]
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
    """A translation with the parts of its words and of its source's, and its sentences, by which they are aligned."""

    source: WordParts
    target: WordParts
    units: Sequence[AlignedUnit]

    @property
    def links(self) -> Links:
        """The links between all parts."""
        return [link for unit in self.units for link in unit.links]

    def targets_of(self, source_part: int) -> Sequence[int]:
        """The target parts that a source part is linked to."""
        own = bisect_right(self.units, source_part, key=lambda unit: unit.source[1])
        return self.units[own].targets_of.get(source_part, ())

    def sources_of(self, target_part: int) -> Sequence[int]:
        """The source parts that a target part is linked to."""
        own = bisect_right(self.units, target_part, key=lambda unit: unit.target[1])
        return self.units[own].sources_of.get(target_part, ())

    def units_of(self, source_parts: range) -> Sequence[AlignedUnit]:
        """The sentences that have some of these source parts."""
        if not source_parts:
            return []
        first = bisect_right(self.units, source_parts[0], key=lambda unit: unit.source[1])
        return self.units[first : bisect_right(self.units, source_parts[-1], key=lambda unit: unit.source[0])]


def separators(aligned: AlignedText) -> list[tuple[int, int, int]]:
    """What is before, between and after sentences: start and end in the source, start in the target.

    Only those that are the same in both; there may be nothing between sentences, where a line break was.
    """
    places, before = list[tuple[Range, Range]](), (0, 0)
    source, target = aligned.source, aligned.target
    for unit in aligned.units:
        if unit.source[0] < unit.source[1] and unit.target[0] < unit.target[1]:
            start = source.parts[unit.source[0]][0], target.parts[unit.target[0]][0]
            places.append((before, start))
            before = source.parts[unit.source[1] - 1][1], target.parts[unit.target[1] - 1][1]
    places.append((before, (len(source.text), len(target.text))))
    return [
        (low[0], high[0], low[1])
        for low, high in places
        if (low[0] < high[0] or 0 < low[0] < len(source.text))
        and source.text[low[0] : high[0]] == target.text[low[1] : high[1]]
    ]
