"""Word alignments in Pharaoh format, `0-0 1-2`, source first: read them, and map words to tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from dragoman.arrays import Int64Array
from dragoman.data.corpora.compression import OpenFile
from dragoman.data.corpora.reader import read_line_blocks
from dragoman.errors import DataError
from dragoman.text.normalization import MARK

Links = list[tuple[int, int]]  # (source, target)
MAX_POSITION = 1 << 16


class PharaohReader:
    """The alignments of a corpus, line by line; words are separated by spaces and counted from 0."""

    def __init__(self, path: Path, open_file: OpenFile) -> None:
        self.path, self.number = path, 0
        self.lines: Iterator[str] = chain.from_iterable(read_line_blocks(path, open_file, "alignments"))

    def take(self, n: int) -> list[Links]:
        """The alignments of the next n pairs."""
        found = []
        for _ in range(n):
            line = next(self.lines, None)
            if line is None:
                raise self._error(f"ends after {self.number:,} lines, but the corpus has more; give one line per pair")
            self.number += 1
            found.append(self._parse(line))
        return found

    def check_finished(self) -> None:
        """Raise DataError if alignments are left over."""
        if next(self.lines, None) is not None:
            raise self._error(f"has more lines than the corpus, which has {self.number:,}; give one line per pair")

    def _parse(self, line: str) -> Links:
        links = []
        for word in line.split():
            source, _, target = word.partition("-")
            if not (source.isdecimal() and target.isdecimal() and len(word) < 12):
                message = f"{self.path}, line {self.number}: {word[:40]!r} is not a link; write i-j, such as 0-0"
                raise DataError(message, code="invalid_link")
            links.append((int(source), int(target)))
        return links

    def _error(self, problem: str) -> DataError:
        return DataError(f"{self.path} {problem}", code="count_mismatch")


def word_starts(tokens: Sequence[str]) -> Int64Array:
    """For each token of a vocabulary, 1 if it begins a word."""
    return np.array([token.startswith(MARK) for token in tokens], np.int64)


def token_links(
    links: Links, source: Sequence[int], target: Sequence[int], marks: tuple[Sequence[bool], Sequence[bool]]
) -> list[int]:
    """Links `target << 16 | source` between the tokens of linked words, from the word of each token.

    `marks` says which tokens of each side are punctuation: a comma after a word is linked with a comma, not with words.
    """
    by_word: list[dict[int, list[int]]] = [{}, {}]
    for positions, words in zip(by_word, (source, target), strict=True):
        for position, word in enumerate(words):
            positions.setdefault(word, []).append(position)
    found = {
        t << 16 | s
        for one, other in links
        for s in by_word[0].get(one, ())
        for t in by_word[1].get(other, ())
        if marks[0][s] == marks[1][t] and max(s, t) < MAX_POSITION
    }
    return sorted(found)
