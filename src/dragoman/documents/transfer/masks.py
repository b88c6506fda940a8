"""Mask placeholders, URLs and other text that must survive translation with words that models copy.

A mask is a word such as `X1`. benchmarks/placeholders.py compares kinds of masks: a capital letter with a number is
copied most often by models that never saw a mask, then plain numbers; braces, tags and rare symbols are not.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from dragoman.documents.segment import Span
from dragoman.documents.transfer.moves import Moves
from dragoman.documents.transfer.placeholders import CONVERSION, DATES, find_placeholders
from dragoman.search.constraints.phrases import is_word_character
from dragoman.text.normalization import SPACELESS

NUMERIC: Final = re.compile(
    r"%(?:\([^()]*\))?[^%()A-Za-z]*(?:hh?|ll?|[Lqjzt])?[diufFeEgG]|%L\d+"
    r"|[{$%#:]+\s*(?:n|num|count|total|number|size|amount|\w+_?[cC]ount)\b.*"
)
ORDERED: Final = re.compile(  # the first %s is the first argument, wherever it is; and {% endif %} is after {% if x %}
    r"%(?!%|L?\d+\Z|[-_0^#]?[BHIjklmMPRTUVwWyYZ]\Z)[^$(%]*|\{\}|\{[!:].*\}|\{%.*|<[%?](?!=).*"
    r"|\{\{~?\s*(?:[#/^]|else\b).*|</?[#@].*",
    re.DOTALL,
)
ORDERED_INSIDE: Final = re.compile(  # code, a URL or another placeholder, unless it is a date or a format: {start:%d}
    rf"{DATES} | %% | \{{[\w.]+:[^{{}}]*\}} | (?P<ordered>%{CONVERSION}(?![A-Za-zÀ-ɏ]) | \{{(?:[!:][^{{}}]*)?\}})",
    re.VERBOSE,
)
CONTROL: Final = re.compile(  # what stands for nothing itself: tags of templates, and tags around words
    r"\{[%#]|<[%?](?!=)|</?[#@]|\{\{~?\s*(?:[#/^!]|else\b)|</?\d{1,3}\s*/?>"
)
GLUED_LETTERS: Final = 4  # beside a placeholder; fewer are a unit or an ending, such as MB, px and th
ENCODED: Final = re.compile(r"%[0-9a-fA-F]{2}")  # a byte of a URL
CLOSED_LEFT: Final = frozenset("([{<\"'„“‚‘«¿¡/-–—")  # what touches the following word
CLOSED_RIGHT: Final = frozenset(")]}>\"'”“’»/-–—.,;:!?…。，、！？")  # what touches the word before
LETTERS: Final = re.compile(rf"[^\W\d_]{{{GLUED_LETTERS}}}")
LETTER: Final = re.compile(r"[^\W\d_]")
DIGITS: Final = re.compile(r"\d+")
PIECE: Final = re.compile(r"(?<![A-ZÀ-Þ])X\d*(?![^\W\d_])")  # X, X2, -X and wordX, but not Xaver and MAX
SOURCE_PIECE: Final = re.compile(rf"{PIECE.pattern}|(?<![^\W\d_])x\d*(?![^\W\d_])")  # the x-axis is the X-Achse
FIRST_NUMBER: Final = 4831  # four digits: models copy them, and texts rarely have the same ones
NUMBER_STEP: Final = 1153


def ordered_placeholders(text: str) -> list[str]:
    """The placeholders whose order counts: unnamed arguments, and tags of templates that control what is between.

    Arguments inside longer placeholders count too, such as those of a command in backticks.
    """
    if "%" not in text and "{" not in text and "<" not in text:  # nearly all texts
        return []
    return [one for start, end in find_placeholders(text) for one in ordered_parts(text[start:end])]


def ordered_parts(placeholder: str) -> list[str]:
    """A placeholder if its order counts, else the parts of it whose order counts."""
    if ORDERED.fullmatch(placeholder):
        return [placeholder]
    found = ORDERED_INSIDE.finditer(ENCODED.sub("", placeholder))
    return [one[0] for one in found if one["ordered"]]


def has_ordered_placeholders(markup: str) -> bool:
    """Whether a tag has placeholders whose order counts; the bytes of a URL without a host look like them: a%20d."""
    return bool(ordered_placeholders(ENCODED.sub("", markup)))


@dataclass(frozen=True)
class Mask:
    """The word that stands for a protected span in the text that the model reads."""

    word: str
    span: int  # index of the span in its segment
    start: int  # in the masked text
    joins_left: bool  # whether it touches a letter, a digit or a hyphen in the source
    joins_right: bool
    ordered: bool = False  # whether it must stay in the order of such masks
    space_left: bool = False  # whether the space before it is not in the source, where it touches a word
    space_right: bool = False

    @property
    def end(self) -> int:
        """Where it ends in the masked text."""
        return self.start + len(self.word)


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
            place = mask.end
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
        before, own = text[place : span.start], text[span.start : span.end]
        masked += before
        space_left = glues(own, before[::-1], CLOSED_LEFT)
        masked += " " * space_left
        numeric = NUMERIC.fullmatch(span.name) is not None
        words = chain(map(str, numbers if numeric else ()), mask_words(order, numeric))
        word = next(word for word in words if word not in taken)
        taken.add(word)
        left = joins(masked[-2:][::-1])
        ordered = bool(ordered_placeholders(span.name) or (span.open and ordered_placeholders(own)))
        place = span.end
        following = text[place : protected[order + 1][1].start if order + 1 < len(protected) else len(text)]
        space_right = glues(own, following, CLOSED_RIGHT)
        masks.append(Mask(word, index, len(masked), left, False, ordered, space_left, space_right))
        masked += word + " " * space_right
    masked += text[place:]
    return MaskedText(
        masked, tuple(replace(mask, joins_right=joins(masked[mask.end : mask.end + 2])) for mask in masks)
    )


def glues(placeholder: str, neighbors: str, closed: Set[str]) -> bool:
    """Whether a placeholder touches a word, or punctuation that is not `closed`; models drop words that touch masks.

    `neighbors` are the characters up to the next placeholder, nearest first; Chinese words touch everything anyway.
    """
    if not neighbors or neighbors[0].isspace() or neighbors[0] in closed or SPACELESS.match(neighbors):
        return False
    if CONTROL.search(placeholder):
        return True
    return placeholder.startswith("{") and LETTERS.match(neighbors.lstrip(":;,!?")) is not None


def covered_ranges(masked: MaskedText) -> list[tuple[Mask, int, int]]:
    """The masks in the order of the text, and the range of each, with the spaces that divide it from words."""
    found, place = list[tuple[Mask, int, int]](), 0
    for mask in sorted(masked.masks, key=lambda mask: mask.start):
        start, end = mask.start, mask.end
        if mask.space_left and start > place and masked.text[start - 1] == " ":
            start -= 1
        if mask.space_right and masked.text[end : end + 1] == " ":
            end += 1
        found.append((mask, start, end))
        place = end
    return found


def unmasking(masked: MaskedText, spans: Sequence[Span]) -> Moves:
    """How the places of a masked text move when its masks are replaced by the protected spans."""
    edits = list[tuple[int, int, int]]()
    for mask, start, end in covered_ranges(masked):
        span = spans[mask.span]
        edits.append((mask.start, len(mask.word), span.end - span.start))
        edits += [(start, 1, 0)] * (start < mask.start) + [(mask.end, 1, 0)] * (end > mask.end)
    return Moves(edits)


def masking(masked: MaskedText, spans: Sequence[Span]) -> Moves:
    """How the places of a text move when its protected spans are masked."""
    edits = list[tuple[int, int, int]]()
    for mask in masked.masks:
        span = spans[mask.span]
        edits.append((span.start, span.end - span.start, len(mask.word)))
        edits += [(span.start, 0, 1)] * mask.space_left + [(span.end, 0, 1)] * mask.space_right
    return Moves(edits)


def has_other_placeholders(masked: MaskedText, translation: str) -> bool:
    """Whether a translation with all masks has placeholders such as %d, or pieces of masks, that the source has not."""
    if ordered_placeholders(translation) != ordered_placeholders(masked.text):
        return True
    words = {mask.word for mask in masked.masks if not mask.word.isdecimal()}
    pieces = set(PIECE.findall(translation)) - words if words else ()
    return bool(pieces) and not {piece.upper() for piece in SOURCE_PIECE.findall(masked.text)}.issuperset(pieces)


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
        place = mask.end
    return MaskedText(text + masked.text[place:], tuple(masks))
