"""Where places of a text are after parts of it were replaced."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

from dragoman.documents.segment import Span
from dragoman.documents.transfer.ranges import Range


class Moves:
    """How places move in a text in which ranges (start, old length) are replaced by others of a new length."""

    def __init__(self, edits: Iterable[tuple[int, int, int]]) -> None:
        self.ends, self.shifts = list[int](), [0]
        for start, old, new in sorted(edits):
            self.ends.append(start + old)
            self.shifts.append(self.shifts[-1] + new - old)

    def place(self, place: int) -> int:
        """The new place of a character that is not inside such a range."""
        return place + self.shifts[bisect_right(self.ends, place)]

    def range(self, place: Range) -> Range:
        """The new place of a range."""
        return self.place(place[0]), self.place(place[1])

    def span(self, span: Span) -> Span:
        """A span at its new place."""
        return replace(span, start=self.place(span.start), end=self.place(span.end))

    def spans(self, spans: tuple[Span, ...]) -> tuple[Span, ...]:
        """Spans at their new places."""
        return tuple(map(self.span, spans)) if self.ends else spans
