"""Ranges of the parts of a text: which parts a place overlaps, which ones are taken, and which range is best."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

Range = tuple[int, int]


class Places(NamedTuple):
    """Where each token starts and where it ends; two lists are made and searched faster than one of pairs."""

    starts: list[int]
    ends: list[int]

    @classmethod
    def of(cls, ranges: Sequence[Range]) -> Self:
        """The places that these ranges have."""
        return cls([start for start, _ in ranges], [end for _, end in ranges])


class RangeSet:
    """Disjoint ranges, in order; those that touch become one."""

    def __init__(self) -> None:
        self.starts, self.ends = list[int](), list[int]()

    def add(self, low: int, high: int) -> None:
        """Add a range that is not empty and does not overlap the others."""
        first, last = bisect_left(self.ends, low), bisect_right(self.starts, high)
        if first < last:
            low, high = min(low, self.starts[first]), max(high, self.ends[last - 1])
        self.starts[first:last], self.ends[first:last] = [low], [high]

    def overlaps(self, low: int, high: int) -> bool:
        """Whether a range has something in common with these."""
        following = bisect_right(self.ends, low)
        return following < len(self.starts) and self.starts[following] < max(high, low)

    def next_free(self, place: int) -> int:
        """The first place outside of the ranges, from `place` on."""
        following = bisect_right(self.ends, place)
        inside = following < len(self.starts) and self.starts[following] <= place
        return self.ends[following] if inside else place


def overlap(parts: Sequence[Range], place: Range) -> Range:
    """The first part that a range of characters overlaps, and the one after the last."""
    first = bisect_right(parts, place[0], key=lambda part: part[1])
    last = bisect_left(parts, place[1], key=lambda part: part[0])
    return first, max(first, last) if place[0] < place[1] else first


def outside(gap: int, closed: Sequence[Range]) -> int:
    """The gap itself, or the nearer edge of the range that it is inside of; the ranges are sorted and disjoint."""
    before = bisect_left(closed, gap, key=lambda place: place[0])
    for low, high in closed[max(0, before - 1) : before]:
        if low < gap < high:
            return low if gap - low < high - gap else high
    return gap


def best_range(values: Sequence[tuple[int, float]], between: Callable[[int, int], float]) -> tuple[float, int, int]:
    """The contiguous range with the largest sum, as (sum, start, end); (0, 0, 0) if no value is positive.

    `values` are places, in order, with their values. The places that are not listed have negative values; `between` is
    the sum of those from a place to before another.
    """
    best, total, start, end = (0.0, 0, 0), 0.0, 0, 0
    for place, value in values:
        if total > 0 and end < place:
            total += between(end, place)
        if total <= 0:
            total, start = 0.0, place
        total, end = total + value, place + 1
        if total > best[0]:
            best = (total, start, end)
    return best
