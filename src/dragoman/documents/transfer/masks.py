"""Mask placeholders, URLs and other text that must survive translation with words that models copy.

A mask is a word such as `X1`. benchmarks/placeholders.py compares kinds of masks: a capital letter with a number is
copied most often by models that never saw a mask, then plain numbers; braces, tags and rare symbols are not.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Final

from dragoman.documents.segment import Segment, Span
from dragoman.documents.transfer.placeholders import find_placeholders, may_have_placeholders
from dragoman.documents.transfer.ranges import Range
from dragoman.documents.transfer.unknown_text import SYMBOLS, find_unknown
from dragoman.search.constraints.phrases import is_word_character

NUMERIC: Final = re.compile(r"%.*[diufFeEgG]|[{$%#]*\s*(?:n|num|count|total|number|size|amount|\w+_?[cC]ount)\b.*")
ORDERED: Final = re.compile(  # the first %s is the first argument, wherever it is; and {% endif %} is after {% if x %}
    r"%(?!%)[^$(%]*|\{\}|\{[!:].*\}|\{%.*|<[%?](?!=).*", re.DOTALL
)
ENCODED: Final = re.compile(r"%[0-9a-fA-F]{2}")  # a byte of a URL
WORD_POINTS: Final = frozenset(
    ("x", "ph", "img", "input", "picture", "select", "image", "sym", "drawing")
)  # variables, symbols, images
SENTENCE_ENDS: Final = frozenset(".!?…。！？")
CLOSING_MARKS: Final = frozenset(".,;:!?)")
LETTER: Final = re.compile(r"[^\W\d_]")
DIGITS: Final = re.compile(r"\d+")
FIRST_NUMBER: Final = 4831  # four digits: models copy them, and texts rarely have the same ones
NUMBER_STEP: Final = 1153


def find_between(
    text: str, edges: Sequence[int], unknown: Set[str] = frozenset(), known: Sequence[Range] = ()
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
        for start, end in find_placeholders(text[low:high]):
            if unknown:
                yield from find_unreadable(place, low + start)
            place = low + end
            yield low + start, place, False
        if unknown:
            yield from find_unreadable(place, high)


def ordered_placeholders(text: str) -> list[str]:
    """The placeholders whose order counts: unnamed arguments, and tags of templates that control what is between."""
    if "%" not in text and "{" not in text and "<?" not in text:  # nearly all texts
        return []
    found = (text[start:end] for start, end in find_placeholders(text) if not ENCODED.match(text, start))
    return [one for one in found if ORDERED.fullmatch(one)]


def protect_placeholders(
    segment: Segment, unknown: Set[str] = frozenset(), known: Sequence[Range] = (), bases: Sequence[Range] = ()
) -> Segment:
    """The segment with its placeholders as protected spans, inside the spans that it has.

    So are symbols and words with `unknown` characters, which the model cannot read, except in ranges that are `known`,
    and `bases`, the numbers that exponents were taken from.
    Placeholders without a character between them are one span: models do not copy masks that touch.
    """
    if not (unknown or bases or may_have_placeholders(segment.text)):
        return segment
    protected = sorted((span.start, span.end) for span in segment.spans if span.kind == "protected")
    edges = sorted({edge for span in segment.spans for edge in (span.start, span.end)})
    pairs = sorted((span.start, -span.end, i) for i, span in enumerate(segment.spans) if span.kind == "pair")
    spans, around, next_pair = list(segment.spans), list[int](), 0
    found = find_between(segment.text, edges, unknown, known)
    for start, end, symbols in sorted([*found, *((*base, False) for base in bases)]) if bases else found:
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


def touches(edges: Sequence[int], place: int) -> bool:
    """Whether markup begins or ends at a place; `edges` are sorted."""
    found = bisect_left(edges, place)
    return found < len(edges) and edges[found] == place


@dataclass(frozen=True)
class Mask:
    """The word that stands for a protected span in the text that the model reads."""

    word: str
    span: int  # index of the span in its segment
    start: int  # in the masked text
    joins_left: bool  # whether it touches a letter, a digit or a hyphen in the source
    joins_right: bool
    ordered: bool = False  # whether it must stay in the order of such masks


@dataclass(frozen=True)
class MaskedText:
    """A text with its protected spans masked."""

    text: str
    masks: tuple[Mask, ...] = ()

    def locate(self, translation: str) -> list[int] | None:
        """Where each mask is in a translation; None unless each occurs once, as a whole word.

        Masks of placeholders whose order counts, such as `%s`, must be in order too.
        """
        places = dict[str, list[int]]()  # of all words that may be masks
        for number in DIGITS.finditer(translation) if self.masks else ():
            places.setdefault(number[0], []).append(number.start())
            if translation[number.start() - 1 : number.start()] == "X":
                places.setdefault(f"X{number[0]}", []).append(number.start() - 1)
        found = []
        for mask in self.masks:
            if len(places.get(mask.word, ())) != 1:
                return None
            start = places[mask.word][0]
            end = start + len(mask.word)
            left, right = joins(translation[max(0, start - 2) : start][::-1]), joins(translation[end : end + 2])
            if (left and not mask.joins_left) or (right and not mask.joins_right):
                return None
            found.append(start)
        ordered = [place for mask, place in zip(self.masks, found, strict=True) if mask.ordered]
        return found if ordered == sorted(ordered) else None

    def has_words(self) -> bool:
        """Whether there is a letter outside of the masks."""
        place = 0
        for mask in self.masks:
            if LETTER.search(self.text, place, mask.start):
                return True
            place = mask.start + len(mask.word)
        return LETTER.search(self.text, place) is not None


def joins(neighbors: str) -> bool:
    """Whether a word goes on in these characters, nearest first: a letter, a digit, or one of them after `_`.

    After a hyphen, only a digit does: "the X1 button" is "der X1-Knopf" in German.
    """
    if not neighbors:
        return False
    if neighbors[0] == "-":
        return neighbors[1:].isdigit()
    return is_word_character(neighbors[0]) or (neighbors[0] == "_" and any(map(is_word_character, neighbors[1:])))


def mask_text(text: str, protected: Sequence[tuple[int, Span]], numbers: Sequence[int] = ()) -> MaskedText:
    """`text` with a mask for each of these spans (with their indices), which are in order and do not overlap.

    A placeholder for a number, such as `%d` or `{count}`, is masked by a number, which governs the grammar around it;
    `numbers` are preferred.
    """
    if not protected:
        return MaskedText(text)
    masked, masks, place = "", list[Mask](), 0
    taken = mask_like(text)
    for order, (index, span) in enumerate(protected):
        masked += text[place : span.start]
        numeric = NUMERIC.fullmatch(span.name) is not None
        words = chain(map(str, numbers if numeric else ()), mask_words(order, numeric))
        word = next(word for word in words if word not in taken)
        taken.add(word)
        left = joins(masked[-2:][::-1])
        ordered = bool(
            ordered_placeholders(span.name) or (span.open and ordered_placeholders(text[span.start : span.end]))
        )
        masks.append(Mask(word, index, len(masked), left, False, ordered))
        masked += word
        place = span.end
    masked += text[place:]
    ends = (mask.start + len(mask.word) for mask in masks)
    found = (replace(mask, joins_right=joins(masked[end : end + 2])) for mask, end in zip(masks, ends, strict=True))
    return MaskedText(masked, tuple(found))


def mask_like(text: str) -> set[str]:
    """What a text has that looks like a mask."""
    return set(re.findall(r"X\d+|\d+", text.upper()))


def mask_words(order: int, numeric: bool) -> Iterator[str]:
    """Candidates for the mask of a span, all different from those of other spans of the text."""
    step = 1000  # more spans than a sentence has
    number = order
    while True:
        yield str(FIRST_NUMBER + number * NUMBER_STEP) if numeric else f"X{number + 1}"
        number += step


def cut(masked: MaskedText, start: int, end: int) -> MaskedText:
    """A part of a masked text, with the masks inside it."""
    if not masked.masks:
        return MaskedText(masked.text[start:end])
    first = bisect_left(masked.masks, start, key=lambda mask: mask.start)
    last = bisect_left(masked.masks, end, key=lambda mask: mask.start)
    inside = masked.masks[first:last]
    return MaskedText(masked.text[start:end], tuple(replace(mask, start=mask.start - start) for mask in inside))


def remask(masked: MaskedText) -> MaskedText:
    """The same text with the other kind of mask."""
    text, masks, place = "", list[Mask](), 0
    taken = mask_like(masked.text)
    for order, mask in enumerate(masked.masks):
        text += masked.text[place : mask.start]
        numeric = not mask.word.isdecimal()
        word = next(word for word in mask_words(order, numeric) if word not in taken)
        taken.add(word)
        masks.append(replace(mask, word=word, start=len(text)))
        text += word
        place = mask.start + len(mask.word)
    return MaskedText(text + masked.text[place:], tuple(masks))
