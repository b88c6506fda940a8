"""Tokens as the bytes they write, with word boundaries between them.

However a text is tokenized, it becomes the same sequence of symbols: its bytes, and a separator at each word boundary.
Phrases are matched against these symbols, so no tokenization of a phrase is missed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import HANGUL, is_word_character
from dragoman.text import Tokenizer
from dragoman.text.normalization import MARK, SPACELESS
from dragoman.text.special_tokens import EOS, N_SPECIAL, UNK

EDGE: Final = 256  # word boundary: between two characters that do not form one word
UNCLEAR: Final = 257  # next to a byte of a character that has no token and is not complete yet
NOTHING: Final = 258  # no symbol: the automaton stays in its state
SYMBOLS: Final = 259
OTHER, WORD, BYTE, OPENING, SILENT = range(5)  # kinds of the first or last character; silent tokens write nothing
BETWEEN: Final = np.array(
    [
        [EDGE, EDGE, EDGE, EDGE, NOTHING],
        [EDGE, NOTHING, UNCLEAR, EDGE, NOTHING],
        [EDGE, UNCLEAR, UNCLEAR, EDGE, NOTHING],
        [EDGE, EDGE, EDGE, EDGE, NOTHING],
    ],
    np.int16,
)
"""[kind of the last character, kind of the next]."""
BOUNDARIES: Final[list[list[int]]] = BETWEEN.tolist()
OPENINGS: Final = frozenset(" \"'/")  # a word may follow these without a space; likewise brackets and dashes

Unit = tuple[bytes, int]


class Spelling:
    """A vocabulary as symbols: `stream [V, L]` is what each token writes, padded with NOTHING.

    `first [V]` and `last [V]` are the kinds of its first and last characters.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.marks_words:
            raise SearchError(
                "this model's imported tokenizer does not mark where words begin, so phrases cannot be required or "
                "avoided; drop the constraints",
                code="unsupported_constraints",
            )
        self.tokenizer = tokenizer
        size = tokenizer.vocabulary_size
        widths, names = tokenizer.widths, tokenizer.tokens(range(size))
        texts = [name.replace(MARK, " ") for name in names]
        bytes_ = [widths[i] == 1 and len(names[i]) == len("<0x00>") for i in range(size)]
        learned = [i >= N_SPECIAL and widths[i] > 0 and not bytes_[i] for i in range(size)]
        self.known = frozenset(character for i in range(size) if learned[i] for character in texts[i])
        self.first: NDArray[Any] = np.full(size, SILENT, np.int8)
        self.last = self.first.copy()
        rows: list[list[int]] = []
        for i, text in enumerate(texts):
            if i == UNK:
                units = [("\N{REPLACEMENT CHARACTER}".encode(), OTHER)]
            elif learned[i]:
                units = [*self.units(text)]
            elif bytes_[i]:
                units = [unit_of_byte(int(text[3:5], 16))]
            else:
                units = []
            rows.append(join_units(units))
            if units:
                self.first[i], self.last[i] = units[0][1], units[-1][1]
        self.copies: dict[Any, list[Any]] = {}  # the tables on each search device
        self.written = rows  # what each token writes, as lists
        self.first[EOS] = OTHER  # the end of the text is a boundary, although it writes nothing
        longest = max(map(len, rows)) + 1  # the last column is always NOTHING
        self.stream: NDArray[Any] = np.full((size, longest), NOTHING, np.int16)
        for i, row in enumerate(rows):
            self.stream[i, : len(row)] = row

    def units(self, text: str) -> Iterable[Unit]:
        """The characters of a text; characters without a token are split into bytes."""
        for character in text:
            if character in self.known:
                yield character.encode(), kind_of(character)
            else:
                yield from map(unit_of_byte, character.encode())

    def closed(self, phrase: str) -> list[list[int]]:
        """Symbol patterns of a phrase with the boundaries around it; the first is that of the phrase alone.

        Next to a character that is not part of words there is always a boundary.
        """
        inner = join_units([*self.units(phrase)])
        before, after = (
            [EDGE] if is_word_character(character) else [EDGE, UNCLEAR] for character in (phrase[0], phrase[-1])
        )
        return [[start, *inner, end] for start in before for end in after]

    def opened(self, phrase: str) -> list[int]:
        """The symbols of a phrase with the boundary before it; unclear boundaries count as boundaries."""
        return [EDGE, *(EDGE if symbol == UNCLEAR else symbol for symbol in join_units([*self.units(phrase)]))]

    def spellings(self, phrase: str) -> list[tuple[list[int], bool]]:
        """Tokenizations of a phrase after a space and without one, each with whether it may follow any text."""
        spaced, bare = self.tokenizer.encode(phrase), self.tokenizer.encode_marked(phrase)
        if spaced == bare:
            return [(spaced, True)]
        return [(spaced, True), (bare, False)]

    def symbols_of(self, tokens: Sequence[int]) -> Iterable[list[int]]:
        """The symbols that each token of a text writes, with the boundary before it."""
        last = OTHER
        for token in tokens:
            boundary = BOUNDARIES[last][self.first[token]]
            yield self.written[token] if boundary == NOTHING else [boundary, *self.written[token]]
            last = last if self.last[token] == SILENT else int(self.last[token])


@lru_cache(maxsize=1 << 16)
def kind_of(character: str) -> int:
    """The kind of a character."""
    if is_word_character(character):
        return WORD
    spaceless = SPACELESS.match(character) is not None or HANGUL.match(character) is not None
    opens = spaceless or character in OPENINGS or unicodedata.category(character) in ("Ps", "Pi", "Pd")
    return OPENING if opens else OTHER


def unit_of_byte(byte: int) -> Unit:
    """A byte that is a character or part of one."""
    if byte < 0x80:
        return bytes([byte]), kind_of(chr(byte))
    return bytes([byte]), BYTE


def join_units(units: Sequence[Unit]) -> list[int]:
    """The symbols of consecutive characters, without the boundaries around them."""
    found: list[int] = []
    for number, (written, kind) in enumerate(units):
        if number and (mark := BOUNDARIES[units[number - 1][1]][kind]) != NOTHING:
            found.append(mark)
        found += written
    return found
