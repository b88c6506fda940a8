"""Find what must survive in a segment, and protect it: placeholders, points between words, and unknown text."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from itertools import pairwise
from typing import Final

from dragoman.documents.segment import Segment, Span
from dragoman.documents.transfer.masks import CONTROL, LETTER
from dragoman.documents.transfer.placeholders import find_placeholders, may_have_placeholders
from dragoman.documents.transfer.ranges import Range
from dragoman.documents.transfer.unknown_text import SYMBOLS, find_unknown

WORD_POINTS: Final = frozenset(
    ("x", "ph", "img", "input", "picture", "select", "image", "sym", "drawing")
)  # variables, symbols, images
NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
SENTENCE_ENDS: Final = frozenset(".!?…。！？")
CLOSING_MARKS: Final = frozenset(".,;:!?)")
TEMPLATE: Final = re.compile(rf"(?!</?\d)(?:{CONTROL.pattern})")


def find_between(
    text: str,
    edges: Sequence[int],
    unknown: Set[str] = frozenset(),
    known: Sequence[Range] = (),
    program: bool = False,
) -> Iterator[tuple[int, int, bool]]:
    """Start and end of what must survive in a text with markup at `edges`, and whether it is unknown symbols.

    Placeholders with markup inside are not placeholders. Words and symbols with `unknown` characters survive too, if
    they are not in ranges that are `known`.
    """

    def find_unreadable(low: int, high: int) -> Iterator[tuple[int, int, bool]]:
        for start, end, symbols in find_unknown(text, low, high, unknown):
            if not any(first < end and start < last for first, last in known):
                yield start, end, symbols

    for low, high in pairwise([0, *edges, len(text)]):
        place = low
        for start, end in find_with_numbers(text, low, high, program):
            if unknown:
                yield from find_unreadable(place, start)
            place = end
            yield start, place, False
        if unknown:
            yield from find_unreadable(place, high)


def find_with_numbers(text: str, low: int, high: int, program: bool) -> Iterator[Range]:
    """The placeholders of a part of a text; each has the number that touches it, which would be read with its mask."""
    found = [(low + start, low + end) for start, end in find_placeholders(text[low:high], program)]
    for (start, end), (following, _) in pairwise([*found, (high, high)]):
        number = NUMBER.match(text, end, following)
        yield start, end if number is None or CONTROL.search(text[start:end]) else number.end()


def is_template_tag(name: str) -> bool:
    """Whether a placeholder is a tag of a template that stands for nothing itself, such as {% if x %}, or several."""
    return TEMPLATE.match(name) is not None and all(TEMPLATE.match(name, start) for start, _ in find_placeholders(name))


def protect_placeholders(
    segment: Segment, unknown: Set[str] = frozenset(), known: Sequence[Range] = (), others: Sequence[Range] = ()
) -> Segment:
    """The segment with its placeholders as protected spans, inside the spans that it has.

    So are symbols and words with `unknown` characters, which the model cannot read, except in ranges that are `known`,
    and `others`, unless markup begins or ends inside them: the numbers before exponents, and directives of a format.
    Placeholders without a character between them are one span: models do not copy masks that touch.
    """
    if not (unknown or others or may_have_placeholders(segment.text, segment.program)):
        return segment
    protected = sorted((span.start, span.end) for span in segment.spans if span.kind == "protected")
    edges = sorted({edge for span in segment.spans for edge in (span.start, span.end)})
    pairs = sorted((span.start, -span.end, i) for i, span in enumerate(segment.spans) if span.kind == "pair")
    spans, around, next_pair = list(segment.spans), list[int](), 0
    found = find_between(segment.text, edges, unknown, known, segment.program)
    if others:
        whole = ((start, end, False) for start, end in others if not divides(edges, start, end))
        found = iter(sorted([*found, *whole], key=lambda one: (one[0], -one[1])))
    for start, end, symbols in found:
        before = bisect_right(protected, start, key=lambda place: place[0])
        if before and protected[before - 1][1] > start:
            continue
        while next_pair < len(pairs) and pairs[next_pair][0] <= start:
            around.append(pairs[next_pair][2])
            next_pair += 1
        while around and segment.spans[around[-1]].end < end:  # ended before: so it does for all that follow
            around.pop()
        parent = next((i for i in reversed(around) if segment.spans[i].end >= end), None)
        last = spans[-1] if len(spans) > len(segment.spans) else None
        if last is not None and last.end > start:
            continue
        if last is not None and last.end == start and last.parent == parent and not touches(edges, start):
            start, symbols = last.start, symbols and last.name == SYMBOLS
            spans.pop()
        name = SYMBOLS if symbols else segment.text[start:end]
        spans.append(Span(start, end, "protected", parent=parent, name=name))
    return replace(segment, spans=tuple(spans))


def protect_points(segment: Segment) -> Segment:
    """The segment with the points that stand for words as protected spans, unless other markup touches them."""
    if all(span.kind != "point" for span in segment.spans):
        return segment
    edges = Counter(edge for span in segment.spans for edge in {span.start, span.end})
    spans = [
        replace(span, kind="protected") if edges[span.start] == 1 and stands_for_word(segment.text, span) else span
        for span in segment.spans
    ]
    return replace(segment, spans=tuple(spans))


def stands_for_word(text: str, point: Span) -> bool:
    """Whether a point is a variable, a symbol or an image between the words of a sentence, with a space before it."""
    name, place = point.name.rpartition(":")[2], point.start
    if point.kind != "point" or name not in WORD_POINTS or text[max(0, place - 1) : place] != " ":
        return False
    start, end = text.rfind("\n", 0, place) + 1, text.find("\n", place)
    before, after = text[start:place].rstrip(), text[place : None if end < 0 else end]
    if before[-1:] in SENTENCE_ENDS or not LETTER.search(before):
        return False
    return after[:1] in CLOSING_MARKS or (after[:1] == " " and LETTER.search(after) is not None)


def divides(edges: Sequence[int], start: int, end: int) -> bool:
    """Whether markup begins or ends between two places; `edges` are sorted."""
    return bisect_right(edges, start) < bisect_left(edges, end)


def touches(edges: Sequence[int], place: int) -> bool:
    """Whether markup begins or ends at a place; `edges` are sorted."""
    found = bisect_left(edges, place)
    return found < len(edges) and edges[found] == place
