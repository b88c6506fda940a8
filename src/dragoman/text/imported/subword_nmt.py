"""BPE in the format of subword-nmt (Sennrich et al., 2016), for models that were trained with it.

A codes file lists pairs of symbols in the order of merging. A word is its characters, and the last one carries `</w>`;
in files without a version, `</w>` is a separate symbol. All tokens of a word except the last carry `@@`.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from itertools import pairwise
from typing import Final

from dragoman.errors import NotATokenizerError
from dragoman.text.normalization import CACHED_WORDS
from dragoman.values import render_value

SEPARATOR: Final = "@@"
END_OF_WORD: Final = "</w>"


class SubwordCodes:
    """Apply the merges of a codes file to words; with a `vocabulary`, tokens outside of it are split again."""

    def __init__(self, codes: str, vocabulary: Container[str] | None = None) -> None:
        self.whole_end = False  # whether the end of a word is a separate symbol
        self.ranks: dict[tuple[str, str], int] = {}
        lines = codes.rstrip("\n").split("\n")
        if lines[0].startswith("#version:"):
            version = lines.pop(0).partition(":")[2].strip()
            if version not in ("0.1", "0.2"):
                raise NotATokenizerError(f"the subword-nmt codes have version {version!r}; expected 0.1 or 0.2")
            self.whole_end = version == "0.1"
        else:
            self.whole_end = True
        for number, line in enumerate(lines, start=1):
            pair = line.strip("\r\n ").split(" ")
            if len(pair) != 2:
                raise NotATokenizerError(
                    f"these are not subword-nmt codes: line {number} of the pairs is {render_value(line)}; expected "
                    "two symbols separated by a space"
                )
            self.ranks.setdefault((pair[0], pair[1]), len(self.ranks))
        self.vocabulary = vocabulary
        self.parts = {a + b: (a, b) for a, b in reversed(self.ranks)}  # the first merge that gives a token wins
        self.known: dict[str, list[str]] = {}

    def split(self, word: str) -> list[str]:
        """The tokens of a word, `@@` on all but the last."""
        found = self.known.get(word)
        if found is None:
            symbols = [*word, END_OF_WORD] if self.whole_end else [*word[:-1], word[-1] + END_OF_WORD]
            found = self._marked(self._merged(symbols))
            if len(self.known) < CACHED_WORDS:
                self.known[word] = found
        return found

    def _merged(self, symbols: list[str]) -> list[str]:
        """Merge the earliest learned pair at all its occurrences, from the left, until no pair is left."""
        while len(symbols) > 1:
            pairs = {pair for pair in pairwise(symbols) if pair in self.ranks}
            if not pairs:
                break
            symbols = list(merge_pair(symbols, min(pairs, key=self.ranks.__getitem__)))
        return symbols

    def _marked(self, symbols: list[str]) -> list[str]:
        if symbols[-1] == END_OF_WORD:
            del symbols[-1]
        else:
            symbols[-1] = symbols[-1].removesuffix(END_OF_WORD)
        if self.vocabulary is not None:
            symbols = [
                token for i, symbol in enumerate(symbols) for token in self._known(symbol, i == len(symbols) - 1)
            ]
        return [*(symbol + SEPARATOR for symbol in symbols[:-1]), symbols[-1]]

    def _known(self, symbol: str, last: bool) -> Iterator[str]:
        """A token if it is known, else the two that it was merged from, recursively; `last` ends the word."""
        assert self.vocabulary is not None
        parts = self.parts.get(symbol + END_OF_WORD if last else symbol)
        if parts is None or (symbol if last else symbol + SEPARATOR) in self.vocabulary:
            yield symbol
            return
        yield from self._known(parts[0], last=False)
        yield from self._known(parts[1].removesuffix(END_OF_WORD) if last else parts[1], last)


def merge_pair(symbols: list[str], pair: tuple[str, str]) -> Iterator[str]:
    """The symbols with every occurrence of a pair merged."""
    i = 0
    while i < len(symbols):
        both = tuple(symbols[i : i + 2]) == pair
        yield pair[0] + pair[1] if both else symbols[i]
        i += 2 if both else 1
