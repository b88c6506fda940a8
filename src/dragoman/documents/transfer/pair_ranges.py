"""The range of target parts that is aligned best with a pair."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final

from dragoman.documents.transfer.aligned_text import AlignedText, AlignedUnit
from dragoman.documents.transfer.ranges import RangeSet, best_range

THRESHOLD: Final = 0.35  # the share of a word on the words of a pair above which it belongs to the pair
MIN_SHARE: Final = 0.05  # below, no word of the translation is aligned with the pair
HALF: Final = 0.1  # the value of a word that is linked to as many words inside the pair as outside: a compound
UNALIGNED: Final = -0.25  # the value of a word without links: it joins aligned words on both sides, but not an edge
AT_EOS: Final = -0.1  # the value of a token that attends to nothing but the source's EOS token
ANCHOR: Final = 1e6  # the value of a word that a span must enclose, or must not


class PairRanges:
    """Finds the range of a pair from the values of target parts: how much they belong to it, positive if inside.

    The values come from attention where it is known, and from links elsewhere. Each pair has the source parts `inside`
    it, and whether it `has_words`. `holder` are the target parts of protected text, with the spans that hold them;
    `held_inside` are those inside each pair.
    """

    def __init__(
        self,
        aligned: AlignedText,
        inside: Sequence[range],
        has_words: Sequence[bool],
        holder: Mapping[int, int],
        held_inside: Mapping[int, Sequence[int]],
    ) -> None:
        self.aligned, self.marks = aligned, aligned.target.marks
        self.inside, self.has_words, self.holder, self.held_inside = inside, has_words, holder, held_inside

    def best(self, index: int, first: int, last: int, taken: RangeSet) -> tuple[float, int, int]:
        """The best range for a pair with source parts among the sentences that it is in, and its score."""
        units = self.aligned.units_of(self.inside[index])
        first, last = max(first, units[0].target[0]), min(last, units[-1].target[1])

        def at_most(low: int, high: int) -> float:
            return -ANCHOR if taken.overlaps(low, high) else (high - low) * UNALIGNED

        def between(low: int, high: int) -> float:
            return -ANCHOR if taken.overlaps(low, high) else self.sums[high] - self.sums[low]

        values = self._values(index, first, last, taken, units)
        listed = sorted(values.items())
        score, low, high = best_range(listed, at_most)
        if not all(t in values for t in range(low, high)):  # else it is best too if parts between have lower values
            score, low, high = best_range(listed, between)
        if self.has_words[index] and self.marks.issuperset(range(low, high)):
            score, values = 0.0, {t: value for t, value in values.items() if t not in self.marks}
        if score <= 0:  # no word belongs to it mostly: the one that does best
            free = self._unlinked(index, first, last, taken, values, units)
            if free is not None and not (self.has_words[index] and free in self.marks):
                values[free] = UNALIGNED
            low = min(values, key=lambda t: (-values[t], t), default=first)
            if values.get(low, -1.0) > 2 * (MIN_SHARE - THRESHOLD):
                score, high = MIN_SHARE, low + 1
        return score, low, high

    def _values(
        self, index: int, first: int, last: int, taken: RangeSet, units: Sequence[AlignedUnit]
    ) -> dict[int, float]:
        """How much target parts from `first` to before `last` belong to a pair: positive if inside.

        Those that are taken, or that nothing in the pair is linked to, are left out: `sums` has their values.
        """
        own, values = self.inside[index], dict[int, float]()
        for unit in units:
            if own.start <= unit.source[0] and unit.source[1] <= own.stop:
                values |= dict.fromkeys(range(*unit.target), 1.0)
            else:
                values |= self._linked_values(own, unit)
                if unit.weights is not None:
                    values |= self._attention_values(own, unit)
        if self.holder:
            values = {t: value for t, value in values.items() if t not in self.holder}
            values |= dict.fromkeys(self.held_inside.get(index, ()), ANCHOR)
        if taken.starts:
            values = {t: value for t, value in values.items() if taken.next_free(t) == t}
        if self.holder or first > units[0].target[0] or last < units[-1].target[1]:
            values = {t: value for t, value in values.items() if first <= t < last}
        return values

    def _linked_values(self, own: range, unit: AlignedUnit) -> dict[int, float]:
        """The values of target parts of a sentence by their links to these source parts; of marks if it has weights."""
        parts: Sequence[int] = range(max(own.start, unit.source[0]), min(own.stop, unit.source[1]))
        if unit.weights is not None:
            parts = [s for s in parts if s in self.aligned.source.marks]
        if not parts:
            return {}
        n_links = Counter(t for s in parts for t in unit.targets_of.get(s, ()))
        return {t: 2 * n / len(unit.sources_of[t]) - 1 or HALF for t, n in n_links.items()}

    def _attention_values(self, own: range, unit: AlignedUnit) -> dict[int, float]:
        """The values of all target parts of a sentence with letters, by their attention to these source parts."""
        parts = self.aligned.source.parts
        of_tokens = 2 * (unit.share(parts[own[0]][0], parts[own[-1]][1]) - THRESHOLD)
        of_tokens = (of_tokens + unit.eos_shares * (AT_EOS - of_tokens)).tolist()
        values = dict[int, float]()
        for i, t in unit.token_parts:
            if of_tokens[i] >= values.get(t, -1.0):
                values[t] = of_tokens[i]
        return values

    def _unlinked(
        self,
        index: int,
        first: int,
        last: int,
        taken: RangeSet,
        values: Mapping[int, float],
        units: Sequence[AlignedUnit],
    ) -> int | None:
        """The first part from `first` to before `last` without links that is not taken and has no value."""
        if self.has_words[index] and all(unit.weights is not None for unit in units):  # all but marks have values
            return None
        i = bisect_left(self.unlinked, first)
        while i < len(self.unlinked) and (t := self.unlinked[i]) < last:
            if (free := taken.next_free(t)) == t:
                if t not in values:
                    return t
                i += 1
            else:
                i = bisect_left(self.unlinked, free)
        return None

    @cached_property
    def linked(self) -> set[int]:
        """The target parts that have links."""
        return {t for _, t in self.aligned.links}

    @cached_property
    def unlinked(self) -> list[int]:
        """The target parts without links that are not protected."""
        parts = range(len(self.aligned.target.parts))
        return [t for t in parts if t not in self.holder and t not in self.linked]

    @cached_property
    def sums(self) -> list[float]:
        """The values of all target parts for pairs that they are not linked to, summed up to each part."""
        parts = range(len(self.aligned.target.parts))
        others = [-ANCHOR if t in self.holder else -1.0 if t in self.linked else UNALIGNED for t in parts]
        return list(accumulate(others, initial=0.0))
