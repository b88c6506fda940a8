"""How phrases are spelled by the tokens of a vocabulary, and what tokens write: bytes, and the edges of words between.

Whatever tokens a text is made of, it is read here as the same symbols: its bytes, with a mark where one word may end
and another begin. A phrase is looked for among these, so that no other spelling of it is overlooked.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import HANGUL, joins
from dragoman.text import Tokenizer
from dragoman.text.special_tokens import EOS, N_SPECIAL, UNK
from dragoman.text.words import MARK, SPACELESS

EDGE: Final = 256  # between two characters that do not make one word
UNCLEAR: Final = 257  # beside a byte of a character that has no token: who knows yet what it will be
NOTHING: Final = 258  # leads nowhere
SYMBOLS: Final = 259
OTHER, WORD, BYTE, OPENING, SILENT = range(5)  # what a token begins or ends with; silent ones write nothing
BETWEEN: Final = np.array(
    [
        [EDGE, EDGE, EDGE, EDGE, NOTHING],
        [EDGE, NOTHING, UNCLEAR, EDGE, NOTHING],
        [EDGE, UNCLEAR, UNCLEAR, EDGE, NOTHING],
        [EDGE, EDGE, EDGE, EDGE, NOTHING],
    ],
    np.int16,
)
"""[what came last, what comes next]."""
OPENINGS: Final = frozenset(" \"'/")  # after which a word may begin without a space; and brackets, dashes and the like

Unit = tuple[bytes, int]


class Spelling:
    """A vocabulary as symbols: `stream [V, L]` is what each token writes, filled up with NOTHING.

    `first [V]` and `last [V]` are what it begins and ends with.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        if not tokenizer.marks_words:
            raise SearchError(
                "words cannot be required or avoided with this model: its tokenizer was imported, and a token of it "
                "does not say whether a word begins with it; leave them out, or put them in after the translation"
            )
        self.tokenizer = tokenizer
        size = tokenizer.vocabulary_size
        widths, names = tokenizer.widths, tokenizer.tokens(range(size))
        texts = [name.replace(MARK, " ") for name in names]
        bytes_ = [widths[i] == 1 and len(names[i]) == len("<0x00>") for i in range(size)]
        learned = [i >= N_SPECIAL and widths[i] > 0 and not bytes_[i] for i in range(size)]
        self.known = frozenset(character for i in range(size) if learned[i] for character in texts[i])
        self.first: NDArray[Any] = np.full(size, SILENT, np.int64)
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
            rows.append(joined(units))
            if units:
                self.first[i], self.last[i] = units[0][1], units[-1][1]
        self.copies: dict[Any, list[Any]] = {}  # of the tables, on the devices that search with them
        self.first[EOS] = OTHER  # the end is an edge, though it writes nothing
        longest = max(map(len, rows)) + 1  # the last column is always NOTHING
        self.stream: NDArray[Any] = np.full((size, longest), NOTHING, np.int64)
        for i, row in enumerate(rows):
            self.stream[i, : len(row)] = row

    def units(self, text: str) -> Iterable[Unit]:
        """The characters of a text, those without a token in single bytes."""
        for character in text:
            if character in self.known:
                yield character.encode(), kind_of(character)
            else:
                yield from map(unit_of_byte, character.encode())

    def closed(self, phrase: str) -> list[list[int]]:
        """The symbols of a phrase, with the edges before and after it; the first is how a text of it alone is read.

        Beside a character that makes no word with others there is an edge, whatever the other will be.
        """
        inner = joined([*self.units(phrase)])
        before, after = ([EDGE] if joins(character) else [EDGE, UNCLEAR] for character in (phrase[0], phrase[-1]))
        return [[start, *inner, end] for start in before for end in after]

    def opened(self, phrase: str) -> list[int]:
        """The symbols of a phrase with the edge before it, where what is unclear is taken for an edge."""
        return [EDGE, *(EDGE if symbol == UNCLEAR else symbol for symbol in joined([*self.units(phrase)]))]

    def ways(self, phrase: str) -> list[tuple[list[int], bool]]:
        """The tokens of a phrase, after a space and without one, each with whether it may begin after anything."""
        spaced, bare = self.tokenizer.encode(phrase), self.tokenizer.encode_marked(phrase)
        if spaced == bare:
            return [(spaced, True)]
        return [(spaced, True), (bare, False)]

    def symbols_of(self, tokens: Sequence[int]) -> Iterable[list[int]]:
        """What each of some tokens in a row writes, with the mark before it, where a text begins with them."""
        last = OTHER
        for token in tokens:
            lead = int(BETWEEN[last, self.first[token]])
            yield [symbol for symbol in (lead, *self.stream[token].tolist()) if symbol != NOTHING]
            last = last if self.last[token] == SILENT else int(self.last[token])


@lru_cache(maxsize=1 << 16)
def kind_of(character: str) -> int:
    """What a character is to the word beside it."""
    if joins(character):
        return WORD
    spaceless = SPACELESS.match(character) is not None or HANGUL.match(character) is not None
    opens = spaceless or character in OPENINGS or unicodedata.category(character) in ("Ps", "Pi", "Pd")
    return OPENING if opens else OTHER


def unit_of_byte(byte: int) -> Unit:
    """A byte that is a character, or a part of one."""
    if byte < 0x80:
        return bytes([byte]), kind_of(chr(byte))
    return bytes([byte]), BYTE


def joined(units: Sequence[Unit]) -> list[int]:
    """The symbols of some characters in a row, without the edges around them."""
    found: list[int] = []
    for number, (written, kind) in enumerate(units):
        if number and (mark := int(BETWEEN[units[number - 1][1], kind])) != NOTHING:
            found.append(mark)
        found += written
    return found
