"""Texts of cells that formulas of a spreadsheet compare with: they are not translated, or formulas would miss them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.transfer.masks import LETTER

LITERAL: Final = re.compile(r'"((?:[^"]|"")*)"')
OPERATOR: Final = re.compile(r"<>|[<>]=?|=")
ESCAPE: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
MAX_WILDCARDS, MAX_PATTERNS = 3, 100  # more would take hostile files long
WILDCARD: Final = re.compile(r"~[*?~]|[*?]")


class FormulaTexts:
    """Texts that formulas refer to, compared as spreadsheets do: without case, and with the wildcards * and ?.

    A criterion such as "<>done" refers to "done".
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts: set[str] = set()
        self.patterns: dict[str, re.Pattern[str]] = {}
        self.update(texts)

    def update(self, texts: Iterable[str]) -> None:
        """Add texts of formulas, or names of columns."""
        for text in texts:
            for one in {text, OPERATOR.sub("", text, count=1) if OPERATOR.match(text.strip()) else text}:
                self.texts.add(fold(one))
                short = one.count("*") <= MAX_WILDCARDS and len(self.patterns) < MAX_PATTERNS
                if short and WILDCARD.search(one) and LETTER.search(one):
                    self.patterns[fold(one)] = re.compile(criterion(fold(one)), re.DOTALL)

    def __contains__(self, text: str) -> bool:
        text = fold(text)
        return text in self.texts or any(pattern.fullmatch(text) for pattern in self.patterns.values())


def fold(text: str) -> str:
    """A text without differences that formulas ignore: case, white space, and how characters are escaped."""
    return " ".join(ESCAPE.sub(lambda found: chr(int(found[1], 16)), text).split()).casefold()


def criterion(text: str) -> str:
    """The regular expression of a text with wildcards; `~*` is an asterisk. It never goes back behind an asterisk."""
    parts, place = [""], 0
    for found in WILDCARD.finditer(text):
        parts[-1] += re.escape(text[place : found.start()])
        if found[0] == "*":
            parts.append("")
        else:
            parts[-1] += "." if found[0] == "?" else re.escape(found[0][1])
        place = found.end()
    parts[-1] += re.escape(text[place:])
    if len(parts) == 1:
        return parts[0]
    first, *between, last = parts
    return first + "".join(f"(?>.*?{part})" for part in between) + f".*{last}"


def keep_formula_texts(part: SplicedText, kept: FormulaTexts) -> SplicedText:
    """The part with segments that formulas refer to left as they are."""

    def mark(slot: Slot) -> Slot:
        if slot.segment.text in kept:
            return replace(slot, segment=replace(slot.segment, translate=False))
        return slot

    return replace(part, slots=[mark(slot) for slot in part.slots])
