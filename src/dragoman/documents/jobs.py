"""Plan the translation of a segment: mask what must survive, and split the text into sentences."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from itertools import chain, pairwise
from typing import Final

from dragoman.documents.segment import Segment
from dragoman.documents.transfer.assembly import Job, Unit
from dragoman.documents.transfer.masks import MaskedText, cut, mask_text, masking
from dragoman.documents.transfer.notes import detach_notes
from dragoman.documents.transfer.protected import is_template_tag, protect_placeholders, protect_points
from dragoman.documents.transfer.ranges import Range
from dragoman.documents.transfer.unknown_text import SEPARATORS, SYMBOLS
from dragoman.translation.segmentation import BEFORE_LINE, GAP

NONE: Final = frozenset[str]()
DIVIDERS: Final = SEPARATORS | {"•", "·"}
VISIBLE: Final = re.compile(r"\S")
COLUMNS: Final = re.compile(rf"(?<=\t)|(?<={GAP})(?! )")
BULLETS: Final = re.compile(r"((?<=[^\W\d_]{2}\s)[•·](?=\s)|(?<=\S\s)[•·](?=\s[^\W\d_]{2}))")  # 5 · x is a product
Split = Callable[[str], list[str]]


def make_job(
    segment: Segment, split: Split, align: bool = False, unknown: Set[str] = NONE, known: Sequence[Range] = ()
) -> Job:
    """Mask a segment and split it into units; with `align`, all of them are aligned.

    Text with `unknown` characters is masked too, except in the ranges that are `known`.
    """
    notes = detach_notes(segment)
    bases = () if notes is None else notes.bases
    plain = protect_points(segment if notes is None else notes.segment)
    segment = protect_placeholders(plain, unknown, known, bases)
    protected = sorted(
        ((i, span) for i, span in enumerate(segment.spans) if span.kind == "protected"), key=lambda one: one[1].start
    )
    masked = mask_text(segment.text, protected, segment.numbers)
    edges, points, breaks = find_markup(segment, masked)
    units, place = list[Unit](), 0
    ranges = sentence_ranges(masked.text, breaks, split)
    cut_off = {i for i, span in protected if span.name == SYMBOLS or is_template_tag(span.name)}
    for start, end in cut_ends(masked, segment, ranges, cut_off) if cut_off else ranges:
        unit = cut(masked, start, end)
        inside = bisect_right(edges, start) < bisect_left(edges, end)
        marked = align or inside or bisect_left(points, start) < bisect_right(points, end)
        units.append(Unit(unit, masked.text[place:start], unit.has_words(), marked))
        place = end
    return Job(segment, units, masked.text[place:], align, notes)


def cut_ends(masked: MaskedText, segment: Segment, ranges: Iterable[Range], cut_off: Set[int]) -> Iterator[Range]:
    """The ranges of sentences, without unknown symbols and tags of templates at their ends, and separators inside them.

    `cut_off` are the indices of these spans. They are ranges of their own, which have nothing to translate.
    """
    text = masked.text
    for start, end in ranges:
        inside = [mask for mask in cut(masked, start, end).masks if mask.span in cut_off]
        places = [(start + mask.start, start + mask.start + len(mask.word), mask.span) for mask in inside]
        last = end  # where the symbols at the end begin
        for low, high, _ in reversed(places):
            if VISIBLE.search(text, high, last):
                break
            last = low
        for low, high, index in places:
            span = segment.spans[index]
            before = VISIBLE.search(text, start, low)
            if before and low < last and not DIVIDERS.issuperset(segment.text[span.start : span.end]):
                continue
            if before:
                yield start, start + len(text[start:low].rstrip())
            yield low, high
            start = following.start() if (following := VISIBLE.search(text, high, end)) else end
        if start < end:
            yield start, end


def find_markup(segment: Segment, masked: MaskedText) -> tuple[list[int], list[int], list[int]]:
    """The places in the masked text at which pairs begin and end, of points between words, and of line breaks."""
    moves = masking(masked, segment.spans)
    first, last = len(masked.text) - len(masked.text.lstrip()), len(masked.text.rstrip())
    edges, points, breaks = list[int](), list[int](), list[int]()
    for span in segment.spans:
        if span.kind == "protected":
            continue
        start, end = moves.range((span.start, span.end))
        if span.is_line_break:
            breaks.append(start)
        elif start < end:
            edges += [start, end]
        elif span.parent is not None or first < start < last:
            points.append(start)
    return sorted(edges), sorted(points), sorted(breaks)


def sentence_ranges(text: str, breaks: Iterable[int], split: Split) -> Iterator[Range]:
    """The place of each unit; line breaks, tabs, bullets and the spaces around units are outside of them."""
    start = 0
    lines = chain.from_iterable(text[a:b].splitlines(keepends=True) for a, b in pairwise([0, *breaks, len(text)]))
    parts = chain.from_iterable(map(COLUMNS.split, lines))
    if "•" in text or "·" in text:
        parts = chain.from_iterable(map(BULLETS.split, parts))
    for line in parts:
        bullet = BEFORE_LINE.match(line)
        if bullet is not None and (content := line[bullet.end() :].rstrip()):
            place = start + bullet.end()
            for sentence in split(content):
                place = text.index(sentence, place)
                yield place, place + len(sentence)
                place += len(sentence)
        start += len(line)
