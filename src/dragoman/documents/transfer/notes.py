"""Take note marks such as <sup>1</sup> out of a segment before translation, and put them back after their words.

Models drop or move numbers and marks that are glued to words, as in "agreed1 on the text". Without its mark, a sentence
is translated as usual, and the mark is placed like a footnote reference, after the word that it was attached to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from dragoman.documents.reports.report import SegmentResult, WordLinks
from dragoman.documents.segment import Segment, Span, Target, children_of
from dragoman.documents.transfer.moves import Moves
from dragoman.documents.transfer.ranges import Range

NOTE: Final = re.compile(
    r"""
      \d{1,4}(?:[,;–-]\ ?\d{1,4})*                                                   # 1; 1,2; 3-5
    | \[(?:\d{1,4}|[A-Za-z])(?:[,;–-]\ ?(?:\d{1,4}|[A-Za-z]))*\]                     # [5]; [a]; [5, 6]
    | \(\d{1,3}\)
    | [*†‡§¶‖]{1,4}
    | [¹²³⁴-⁹⁰]{1,4}
    """,
    re.VERBOSE,
)
MAX_NOTE: Final = 20  # characters
LAST_RUN: Final = re.compile(r"[^\W\d_]+\Z|\d+\Z")
LAST_NUMBER: Final = re.compile(r"(?<![\w.,])\d+\Z")
MAX_BASE: Final = 3  # digits
CLOSING: Final = frozenset(".,;:!?…)]}\"'”’»。，；：！？）」』")
UNITS: Final = frozenset(("mm", "cm", "dm", "km", "nm", "µm", "μm", "ft", "yd", "mi"))  # and single letters: m²
RAISED: Final = frozenset(("sup", "superscript"))
LOWERED: Final = frozenset(("sub", "subscript"))


@dataclass(frozen=True)
class DetachedNotes:
    """A segment without its note marks, which are points; `inner` are the spans inside the notes.

    Exponents are taken out likewise; `bases` are the numbers before them, which must stay as they are.
    """

    original: Segment
    segment: Segment
    notes: frozenset[int]
    inner: frozenset[int]
    bases: tuple[Range, ...] = ()

    def attach(self, result: SegmentResult) -> SegmentResult:
        """The result with the note marks in its target."""
        if result.target is None:
            return replace(result, segment=self.original)
        target = self._attach(result.target)
        words = result.words
        if words is not None:
            before, after = (self._word_moves(spans) for spans in (self.segment.spans, result.target.spans))
            words = WordLinks([*map(before, words.source)], [*map(after, words.target)], words.links)
        return replace(result, segment=self.original, target=target, words=words)

    def _word_moves(self, spans: tuple[Span, ...]) -> Callable[[Range], Range]:
        """How the places of words move when the notes are put back; a word does not enclose the note after it."""
        moves = Moves((spans[i].start, 0, self._span(i).end - self._span(i).start) for i in self.notes)
        return lambda place: (moves.place(place[0]), moves.place(place[1] - 1) + 1)

    def _span(self, index: int) -> Span:
        return self.original.spans[index]

    def _attach(self, target: Target) -> Target:
        children, spans = children_of(target.spans), list(target.spans)
        pieces, size = list[str](), 0

        def write(text: str) -> None:
            nonlocal size
            pieces.append(text)
            size += len(text)

        def walk(start: int, end: int, parent: int | None) -> None:
            for index in children.get(parent, ()):
                if index in self.inner:
                    continue
                span = target.spans[index]
                write(target.text[start : span.start])
                low = size
                if index in self.notes:
                    own = self._span(index)
                    write(self.original.text[own.start : own.end])
                else:
                    walk(span.start, span.end, index)
                spans[index] = replace(self._span(index), start=low, end=size, parent=span.parent)
                start = span.end
            write(target.text[start:end])

        walk(0, len(target.text), None)
        for index in sorted(self.inner):
            span = self._span(index)
            assert span.parent is not None
            shift = spans[span.parent].start - self._span(span.parent).start
            spans[index] = replace(span, start=span.start + shift, end=span.end + shift)
        return replace(target, text="".join(pieces), spans=tuple(spans))


def detach_notes(segment: Segment) -> DetachedNotes | None:
    """The segment without its note marks; None if it has none."""
    notes = find_notes(segment)
    if not notes:
        return None
    ranges = sorted((segment.spans[i].start, segment.spans[i].end) for i in notes)
    moves = Moves((start, end - start, 0) for start, end in ranges)
    edges = [0, *(place for one in ranges for place in one), len(segment.text)]
    text = "".join(segment.text[low:high] for low, high in zip(edges[::2], edges[1::2], strict=True))
    spans, inner = list[Span](), set[int]()
    for i, span in enumerate(segment.spans):
        if span.parent is not None and (span.parent in notes or span.parent in inner):
            around = spans[span.parent]
            spans.append(replace(span, kind="point", start=around.start, end=around.start, parent=around.parent))
            inner.add(i)
        else:
            moved = moves.span(span)
            spans.append(replace(moved, kind="point") if i in notes else moved)
    bases = tuple(find_base(text, place) for place in sorted({spans[i].start for i in notes}))
    detached = replace(segment, text=text, spans=tuple(spans))
    return DetachedNotes(segment, detached, notes, frozenset(inner), tuple(base for base in bases if base is not None))


def find_base(text: str, place: int) -> Range | None:
    """The number that ends at a place, if what was taken out there may be its exponent; not a year."""
    found = LAST_NUMBER.search(text, 0, place)
    return None if found is None or len(found[0]) > MAX_BASE else (found.start(), place)


def find_notes(segment: Segment) -> frozenset[int]:
    """The outermost spans whose whole text is a note mark that is attached to the word before it."""
    text, found = segment.text, set[int]()
    for run in adjacent(segment, find_marks(segment)):
        start, end = segment.spans[run[0][0]].start, segment.spans[run[-1][0]].end
        before, after = text[max(0, start - 20) : start], text[end : end + 1]
        for i, names in run:
            if follows_word(text[segment.spans[i].start : segment.spans[i].end], before, after, names):
                found.add(i)
    return frozenset(found)


def find_marks(segment: Segment) -> dict[int, set[str]]:
    """The outermost spans whose whole text looks like a note mark, with the names of the spans in them."""
    owners, names, rejected = dict[int, int](), dict[int, set[str]](), set[int]()
    for i, span in enumerate(segment.spans):
        owner = None if span.parent is None else owners.get(span.parent)
        if owner is None and span.kind == "pair" and span.end - span.start <= MAX_NOTE:
            owner = i if NOTE.fullmatch(segment.text, span.start, span.end) else None
        if owner is not None:
            owners[i] = owner
            names.setdefault(owner, set()).update(span.name.split("+"))
            if span.kind == "protected":
                rejected.add(owner)
    return {i: own for i, own in names.items() if i not in rejected}


def adjacent(segment: Segment, marks: dict[int, set[str]]) -> list[list[tuple[int, set[str]]]]:
    """Marks in order, in runs with nothing between them."""
    runs = list[list[tuple[int, set[str]]]]()
    for i in sorted(marks, key=lambda i: segment.spans[i].start):
        if runs and segment.spans[runs[-1][-1][0]].end == segment.spans[i].start:
            runs[-1].append((i, marks[i]))
        else:
            runs.append([(i, marks[i])])
    return runs


def follows_word(mark: str, before: str, after: str, names: set[str]) -> bool:
    """Whether a mark is a note to the word before it, and not an exponent, an index or a part of a name.

    `names` are those of its spans.
    """
    if not before or after.isalnum() or names & LOWERED:
        return False
    last, raised = before[-1], bool(names & RAISED)
    if not (last.isalnum() or last in CLOSING):
        return False
    if not mark[0].isdecimal():
        return True
    if last in CLOSING:  # 3.5 and 12:30 are numbers
        return raised or not before[-2:-1].isdecimal()
    if last.isdecimal():
        return raised
    word = LAST_RUN.search(before)
    is_unit = word is not None and (len(word[0]) == 1 or word[0] in UNITS)
    return not is_unit and (raised or not before[-2:].isupper())
