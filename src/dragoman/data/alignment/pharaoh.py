"""Word alignments in Pharaoh format, `0-0 1-2`, source first: read them, and map words to tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.arrays import Int64Array, ranges
from dragoman.data.corpora.compression import OpenFile
from dragoman.data.corpora.lines import read_line_blocks
from dragoman.errors import DataError
from dragoman.text.normalization import MARK

Links = list[tuple[int, int]]  # (source, target)
MAX_POSITION = 1 << 16
MAX_WORDS = 1 << 20  # of a sentence: more than the characters that one may have


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


@dataclass(frozen=True)
class TokenWords:
    """One side of some sentences: how many tokens each has, the word of each token, and which are punctuation.

    Words are counted from 0 in each sentence; tokens before the first word, such as language tokens, have -1.
    """

    lengths: Int64Array
    words: Int64Array
    marks: npt.NDArray[np.bool_]

    @property
    def starts(self) -> Int64Array:
        """The first token of each sentence."""
        found: Int64Array = np.cumsum(self.lengths) - self.lengths
        return found

    def tokens_of(self, sentences: Int64Array, words: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The first token and the number of tokens of some words; none of words that do not exist."""
        owners = np.repeat(np.arange(len(self.lengths)), self.lengths) * MAX_WORDS + self.words
        wanted = sentences * MAX_WORDS + words
        first, end = (np.searchsorted(owners, wanted, side=side) for side in ("left", "right"))
        return first, end - first


def token_links(
    links: tuple[Int64Array, Int64Array, Int64Array], source: TokenWords, target: TokenWords
) -> tuple[npt.NDArray[np.uint32], Int64Array]:
    """Links `target << 16 | source` between the tokens of linked words, in order, and their number in each sentence.

    `links` are sentences, source words and target words. A comma after a word is linked with a comma, not with words.
    In sentences that have links, marks at both ends are linked too, whether or not the words before them are.
    """
    sentence, source_word, target_word = links
    one, n_one = source.tokens_of(sentence, source_word)
    other, n_other = target.tokens_of(sentence, target_word)
    number = ranges(np.zeros_like(n_one), n_one * n_other)  # each source token with each target token
    width, of = np.repeat(n_other, n_one * n_other), np.repeat(np.arange(len(sentence)), n_one * n_other)
    sentence, s, t = sentence[of], one[of] + number // width, other[of] + number % width
    last = np.unique(links[0])
    last = last[(source.lengths[last] > 0) & (target.lengths[last] > 0)]
    ends = [(side.starts + side.lengths)[last] - 1 for side in (source, target)]
    marked = source.marks[ends[0]] & target.marks[ends[1]]
    sentence = np.concatenate([sentence, last[marked]])
    s, t = np.concatenate([s, ends[0][marked]]), np.concatenate([t, ends[1][marked]])
    at_source, at_target = s - source.starts[sentence], t - target.starts[sentence]
    kept = (source.marks[s] == target.marks[t]) & (np.maximum(at_source, at_target) < MAX_POSITION)
    found = np.unique(sentence[kept] << 32 | at_target[kept] << 16 | at_source[kept])
    return (found & 0xFFFFFFFF).astype(np.uint32), np.bincount(found >> 32, minlength=len(source.lengths))
