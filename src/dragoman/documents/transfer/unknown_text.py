"""Find symbols and words that the model cannot read, because its tokenizer has no token for a character of them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Set
from functools import lru_cache
from typing import Final

from dragoman.text.normalization import SPACELESS

SYMBOLS: Final = "unknown symbols"  # the name of a span
SEPARATORS: Final = frozenset("|¦‖│┃║")  # between texts that are translated one by one
SOFT: Final = frozenset(("Pi", "Pf", "Pd", "Ps", "Pe"))  # quotes, dashes and brackets: never part of a name
JOINERS: Final = frozenset("\u200c\u200d")
EMOJI_STYLE: Final = "\ufe0f"  # after the digit of a keycap, for example
INVISIBLE: Final = frozenset(("Cc", "Cf", "Cs"))

# A class for each character: w letter or digit, u one that is unknown, h one without spaces around its words,
# s symbol, p quote or bracket, b separator, m mark or joiner, . all others.
RUN: Final = re.compile(r"h[hm]*|b+|[wus][wusm]*|p+")
LEADING: Final = re.compile(r"([sm]+)w[wm]*")
TRAILING: Final = re.compile(r"w[wm]*(s[sm]*)")
LINE_END: Final = re.compile(r"[^\S\n]*(?:\n|\Z)")


def find_unknown(text: str, low: int, high: int, unknown: Set[str]) -> Iterator[tuple[int, int, bool]]:
    """The runs from `low` to `high` with unknown characters: start, end, and whether they are symbols only.

    A word with an unknown letter or symbol is a name that stays as it is; names with a space between them are one.
    Symbols at the beginning or end of a line are found without the word that they touch.
    """
    last: tuple[int, int, bool] | None = None
    for start, end, symbols in find_runs(text, low, high, unknown):
        if last is not None and not last[2] and not symbols and text[last[1] : start] == " ":
            last = last[0], end, False
            continue
        if last is not None:
            yield last
        last = start, end, symbols
    if last is not None:
        yield last


def find_runs(text: str, low: int, high: int, unknown: Set[str]) -> Iterator[tuple[int, int, bool]]:
    """The same, with each name by itself."""
    classes = "".join([character_class(one, one in unknown) for one in text[low:high]])
    for found in RUN.finditer(classes):
        run, (start, end) = found[0], found.span()
        if run[0] == "p":
            if not {*classes[max(0, start - 1) : start], *classes[end : end + 1]} <= {".", "b"}:
                continue
        elif run[0] == "w" and "u" not in run and "s" not in run:
            continue
        start, end, symbols = start + low, end + low, {*run} <= {*"sbpm"}
        if (cut := LEADING.fullmatch(run)) and begins_line(text, start):
            end, symbols = start + cut.end(1), True
        elif (cut := TRAILING.fullmatch(run)) and LINE_END.match(text, end):
            start, symbols = start + cut.start(1), True
        yield start, end, symbols


def begins_line(text: str, place: int) -> bool:
    """Whether there is only white space before a place of its line."""
    while place and text[place - 1] in " \t":
        place -= 1
    return place == 0 or text[place - 1] == "\n"


@lru_cache(maxsize=1 << 14)
def character_class(character: str, unknown: bool) -> str:
    """The class of a character, as `RUN` has them."""
    category = unicodedata.category(character)
    if category == "Me" or character == EMOJI_STYLE:
        return "s" if unknown else "m"
    if category[0] == "M" or character in JOINERS:
        return "m"
    if category[0] in "LN":
        if SPACELESS.match(character):
            return "h" if unknown else "."
        return "u" if unknown else "w"
    if not unknown or character.isspace() or category in INVISIBLE:
        return "."
    if character in SEPARATORS:
        return "b"
    return "p" if category in SOFT else "s"
