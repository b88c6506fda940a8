"""Divide a translation over cues, and break the text of a cue into lines, at places where people would."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import ceil, inf
from typing import Final

from dragoman.documents.segment import Span, Target

SENTENCE_END: Final = ".!?…。！？؟।"
CLAUSE_END: Final = ",;:、，；：،–—-"
MAX_LINES: Final = 9
MAX_PLACES: Final = 400  # of line breaks; the time grows with their square
NO_START: Final = "、。，．！？：；）」』】〉》’”"  # no line begins with these


def text_width(text: str) -> int:
    """The width of a text in columns; Chinese and Japanese characters have two."""
    return sum(1 + (unicodedata.east_asian_width(character) in "WF") for character in text)


def part_widths(text: str) -> Callable[[int, int], int]:
    """A function for the width of the text from a place to another, without white space around it."""
    sums = [0, *accumulate(map(text_width, text))]
    ends, starts = [0] * len(sums), [len(text)] * len(sums)  # of the words before and after each place
    for i, character in enumerate(text):
        ends[i + 1] = ends[i] if character.isspace() else i + 1
    for i, character in reversed([*enumerate(text)]):
        starts[i] = starts[i + 1] if character.isspace() else i
    return lambda start, end: max(0, sums[ends[end]] - sums[starts[start]])


def is_wide(character: str) -> bool:
    """Whether a character belongs to a script without spaces; Korean has them."""
    return unicodedata.east_asian_width(character) in "WF" and not "\uac00" <= character <= "\ud7a3"


def break_places(text: str) -> list[int]:
    """Where a text may be broken: before a word, and inside Chinese and Japanese text before most characters."""
    places = []
    for i in range(1, len(text)):
        after_space = text[i - 1].isspace() and not text[i].isspace() and text[i - 1] != "\u00a0"
        wide = all(map(is_wide, text[i - 1 : i + 1]))
        if after_space or (wide and text[i] not in NO_START):
            places.append(i)
    return places


def badness(text: str, place: int) -> float:
    """How bad it is to break a text at a place: best after a sentence or a clause, worst after a short word."""
    before = text[:place].rstrip()
    if before[-1:] in SENTENCE_END:
        return 0.0
    if before[-1:] in CLAUSE_END:
        return 0.04
    return 0.2 if len(before.split()[-1] if before.split() else "") > 3 else 0.3


def best_breaks(places: Sequence[int], n_parts: int, end: int, cost: Callable[[int, int, int], float]) -> list[int]:
    """The `n_parts` - 1 increasing places with the least total cost; `cost(k, start, end)` is that of part k."""
    best: dict[int, tuple[float, list[int]]] = {0: (0.0, [])}
    for part in range(n_parts - 1):
        following: dict[int, tuple[float, list[int]]] = {}
        for place in places:
            options = [
                (total + cost(part, start, place), [*chosen, place])
                for start, (total, chosen) in best.items()
                if start < place
            ]
            if options:
                following[place] = min(options)
        best = following
    options = [(total + cost(n_parts - 1, start, end), chosen) for start, (total, chosen) in best.items()]
    return min(options)[1]


def divide(text: str, sizes: Sequence[int], aligned: Sequence[int], capacity: int) -> list[tuple[int, int]]:
    """The start and end of each part of a translation.

    A part is about as long as its source (`sizes`), begins near the place that is `aligned` with its source, and ends
    at a good place; parts wider than `capacity` columns are avoided, unless it is 0.
    """
    n_parts, places = len(sizes), break_places(text)
    if n_parts == 1:
        return [(0, len(text))]
    n_real = min(n_parts, len(places) + 1)
    mean = max(1.0, len(text) / n_parts)
    whole = max(1, sum(sizes))
    expected = [len(text) * sum(sizes[: k + 1]) / whole for k in range(n_parts)]
    width, bad = part_widths(text), {place: badness(text, place) for place in places}

    def cost(part: int, start: int, end: int) -> float:
        over = width(start, end) - capacity if capacity else 0
        total = 4 * (max(0, over) / mean) ** 2
        if part < n_real - 1:
            total += ((end - expected[part]) / mean) ** 2 + bad[end]
            if 0 < aligned[part] < len(text):
                total += ((end - aligned[part]) / mean) ** 2
        return total

    cuts = best_breaks(places, n_real, len(text), cost)
    edges = [0, *cuts, len(text)]
    found = list(pairwise(edges))
    return [*found, *[(len(text), len(text))] * (n_parts - n_real)]


def slice_target(target: Target, start: int, end: int) -> Target:
    """A part of a target without white space around it; pairs that go beyond it are closed in it, and opened again."""
    text = target.text
    last = end == len(text)
    inside = text[start:end]
    low = start + len(inside) - len(inside.lstrip())
    high = low + len(inside.strip())
    spans, numbers = list[Span](), dict[int, int]()
    for index, span in enumerate(target.spans):
        if span.kind == "pair" and span.start < span.end:
            kept = span.start < high and span.end > low
        else:
            kept = start <= span.start < end or (last and span.start == end)
        if span.kind == "pair" and span.parent is not None and span.parent not in numbers:
            kept = kept and span.start < span.end
        if kept:
            numbers[index] = len(numbers)
    for span in (target.spans[index] for index in numbers):
        places = [min(max(place, low), high) - low for place in (span.start, span.end)]
        parent = span.parent  # of a time stamp, it may come later
        while parent is not None and parent not in numbers:
            parent = target.spans[parent].parent
        spans.append(replace(span, start=places[0], end=places[1], parent=None if parent is None else numbers[parent]))
    return Target(text[low:high], tuple(spans), target.approved)


def wrap_lines(target: Target, width: int, max_lines: int) -> Target:
    """The target with line breaks: as few lines as fit, of about the same length, broken at good places.

    A text that does not fit in `max_lines` gets so many longer lines.
    """
    text = target.text
    total, places = text_width(text), break_places(text)
    if total <= width or len(places) > MAX_PLACES:
        return target
    line_width, most = part_widths(text), min(max_lines, MAX_LINES, len(places) + 1)
    first, bad = min(ceil(total / width), most), {place: badness(text, place) for place in places}
    for n_lines, fits in [*((n, True) for n in range(first, most + 1)), (most, False)]:
        mean = total / n_lines

        def cost(part: int, start: int, end: int, mean: float = mean, n: int = n_lines, fits: bool = fits) -> float:
            size = line_width(start, end)
            over = max(0, size - width)
            if over and fits:
                return inf
            return (4 * over**2 + (size - mean) ** 2) / mean**2 + (bad[end] if part < n - 1 else 0)

        cuts = best_breaks(places, n_lines, len(text), cost)
        if sum(cost(k, a, b) for k, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(text)], strict=True))) < inf:
            return insert_breaks(target, cuts)
    return target


def insert_breaks(target: Target, places: Sequence[int]) -> Target:
    """Line breaks before these places, instead of the space before them if there is one."""
    for place in reversed(places):
        text = target.text
        if text[place - 1].isspace():
            target = replace(target, text=text[: place - 1] + "\n" + text[place:])
            continue
        spans = list[Span]()
        for span in target.spans:
            after = span.start >= place
            spans.append(replace(span, start=span.start + after, end=span.end + (after or span.end > place)))
        target = replace(target, text=text[:place] + "\n" + text[place:], spans=tuple(spans))
    return target
