"""Take note marks such as <sup>1</sup> out of a segment before translation, and put them back after their words.

Models drop or move numbers and marks that are glued to words, as in "agreed1 on the text". Without its mark, a sentence
is translated as usual, and the mark is placed like a footnote reference, after the word that it was attached to.
So are trademarks, exponents and indices. The letters of an ordinal, as in 1<sup>st</sup>, are a part of the word: they
are translated with it, and the tag, which no word of the translation is in, encloses nothing.
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
SCRIPT: Final = re.compile(r"(?!.*[^\W\d_]{4})\S{1,8}")  # in <sup> and <sub>: ®, (TM), -3, i
ORDINAL: Final = re.compile(r"[a-zà-ÿ]{2,3}|[eªº]")  # 1st, 2ème, 3º
MAX_NOTE: Final = 20  # characters
LAST_RUN: Final = re.compile(r"[^\W\d_]+\Z|\d+\Z")
LAST_BASE: Final = re.compile(r"(?<![\w.,])(?:\d{1,3}|[A-Za-zΑ-Ωα-ω])\Z")  # a number or a variable, not a year
CLOSING: Final = frozenset(".,;:!?…)]}\"'”’»。，；：！？）」』")
UNITS: Final = frozenset(("mm", "cm", "dm", "km", "nm", "µm", "μm", "ft", "yd", "mi"))  # and single letters: m²
RAISED: Final = frozenset(("sup", "superscript"))
LOWERED: Final = frozenset(("sub", "subscript"))


@dataclass(frozen=True)
class DetachedNotes:
    """A segment without its note marks, which are points; `inner` are the spans inside the notes.

    Exponents are taken out likewise; `bases` are the numbers and letters before them, which must stay as they are. The
    tags of `ordinals` are points too, but their text is not taken out.
    """

    original: Segment
    segment: Segment
    notes: frozenset[int]
    inner: frozenset[int]
    bases: tuple[Range, ...] = ()
    ordinals: frozenset[int] = frozenset()

    def attach(self, result: SegmentResult) -> SegmentResult:
        """The result with the note marks in its target."""
        if result.target is None:
            return replace(result, segment=self.original)
        if result.target.text == self.segment.text:  # ordinals are what they were
            before = after = self._word_moves(self.segment.spans)
            target = replace(result.target, text=self.original.text, spans=self.original.spans)
        else:
            before, after = (self._word_moves(spans) for spans in (self.segment.spans, result.target.spans))
            target = self._attach(result.target)
            lost = (self._span(i).name for i in sorted(self.ordinals))
            result = replace(result, unaligned=(*result.unaligned, *lost))
        words = result.words
        if words is not None:
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
            around = spans[span.parent]
            shift = around.start - self._span(span.parent).start
            start, end = (min(place + shift, around.end) for place in (span.start, span.end))
            spans[index] = replace(span, start=start, end=end)
        return replace(target, text="".join(pieces), spans=tuple(spans))


def detach_notes(segment: Segment) -> DetachedNotes | None:
    """The segment without its note marks; None if it has none."""
    notes, ordinals = find_notes(segment)
    if not notes and not ordinals:
        return None
    ranges = sorted((segment.spans[i].start, segment.spans[i].end) for i in notes)
    moves = Moves((start, end - start, 0) for start, end in ranges)
    edges = [0, *(place for one in ranges for place in one), len(segment.text)]
    text = "".join(segment.text[low:high] for low, high in zip(edges[::2], edges[1::2], strict=True))
    spans, inner = list[Span](), set[int]()
    for i, span in enumerate(segment.spans):
        if span.parent is not None and (span.parent in notes or span.parent in ordinals or span.parent in inner):
            around = spans[span.parent]
            spans.append(replace(span, kind="point", start=around.start, end=around.start, parent=around.parent))
            inner.add(i)
        else:
            moved = moves.span(span)
            is_point = i in notes or i in ordinals
            spans.append(replace(moved, kind="point", start=moved.end) if is_point else moved)
    bases = (find_base(text, place) for place in sorted({spans[i].start for i in notes}))
    found = tuple(base for base in bases if base is not None)
    detached = replace(segment, text=text, spans=tuple(spans))
    return DetachedNotes(segment, detached, notes, frozenset(inner), found, ordinals)


def find_base(text: str, place: int) -> Range | None:
    """The number or the letter that ends at a place, if what was taken out there may be its exponent or its index."""
    found = LAST_BASE.search(text, max(0, place - MAX_NOTE), place)
    return None if found is None else found.span()


def find_notes(segment: Segment) -> tuple[frozenset[int], frozenset[int]]:
    """The outermost spans whose whole text is a note mark that is attached to the word before it, and of ordinals."""
    text, found, ordinals = segment.text, set[int](), set[int]()
    for run in adjacent(segment, find_marks(segment)):
        start, end = segment.spans[run[0][0]].start, segment.spans[run[-1][0]].end
        before, after = text[max(0, start - 20) : start], text[end : end + 1]
        for i, names in run:
            mark = text[segment.spans[i].start : segment.spans[i].end]
            if names & RAISED and before[-1:].isdecimal() and ORDINAL.fullmatch(mark):
                ordinals.add(i)
            elif follows_word(mark, before, after, names):
                found.add(i)
            else:
                before = mark  # a word itself, such as <b>10</b><sup>6</sup>
    return frozenset(found), frozenset(ordinals)


def is_script(span: Span) -> bool:
    """Whether a span raises or lowers its text."""
    return not (RAISED | LOWERED).isdisjoint(span.name.split("+"))


def find_partly_scripts(segment: Segment) -> set[int]:
    """The spans with a script around a part of their text, such as <b>10<sup>6</sup></b>, which are not marks."""
    found = set[int]()
    for span in segment.spans:
        parent = span.parent if is_script(span) else None
        while parent is not None and parent not in found:
            around = segment.spans[parent]
            if not is_script(around) and (around.start, around.end) != (span.start, span.end):
                found.add(parent)
            parent = around.parent
    return found


def find_marks(segment: Segment) -> dict[int, set[str]]:
    """The outermost spans whose whole text looks like a note mark, with the names of the spans in them."""
    owners, names, rejected = dict[int, int](), dict[int, set[str]](), set[int]()
    partly_scripts = find_partly_scripts(segment)
    for i, span in enumerate(segment.spans):
        owner = None if span.parent is None else owners.get(span.parent)
        if owner is None and i not in partly_scripts and span.kind == "pair" and span.end - span.start <= MAX_NOTE:
            found = (SCRIPT if is_script(span) else NOTE).fullmatch(segment.text, span.start, span.end)
            owner = None if found is None else i
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
    """Whether a mark is a note to the word before it, and not a square meter, a formula or a part of a name.

    `names` are those of its spans.
    """
    word = LAST_RUN.search(before)
    if not before or after.isalnum():
        return False
    if names & LOWERED and mark[0].isdecimal():
        return word is not None and word[0].islower()
    last, raised = before[-1], bool(names & RAISED)
    if not (last.isalnum() or last in CLOSING):
        return False
    if not mark[0].isdecimal():
        return True
    if last in CLOSING:  # 3.5 and 12:30 are numbers
        return raised or not before[-2:-1].isdecimal()
    if last.isdecimal():
        return raised
    is_unit = word is not None and (len(word[0]) == 1 or word[0] in UNITS)
    return not is_unit and (raised or not before[-2:].isupper())
