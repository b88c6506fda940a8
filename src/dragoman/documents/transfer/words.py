"""Words and their parts in a text, and links between them, for moving spans from a source to its translation.

The translator aligns words separated by spaces (single tokens in scripts without spaces). Spans need finer units: a
bold word before a comma does not make the comma bold. So words are divided into parts, runs of letters or digits and
single punctuation marks, and the links between two words become links between their parts. Between letters, the
attention itself says more than links do, and is kept.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, groupby
from operator import add
from typing import Final, NamedTuple

from dragoman.documents.transfer.ranges import Places, Range
from dragoman.text.normalization import MARK, SPACELESS
from dragoman.text.word_groups import group_tokens, is_visible, spell, visible_word_ids

WORD: Final = re.compile(r"\S+")
Links = list[tuple[int, int]]


class TokenPlaces(NamedTuple):
    """The places in a text of its visible words, and of its tokens; None where the tokens do not spell the text.

    Words are counted as in `Translation.alignment`. An invisible token is at the end of the one before it; a token for
    a single byte is at the place of its word.
    """

    words: list[Range] | None
    tokens: Places | None


def locate_tokens(text: str, tokens: Sequence[str]) -> TokenPlaces:
    """The places of words and tokens in `text`."""
    if (found := plain_places(text, tokens)) is not None:
        return found
    written = [visible_text(token) for token in tokens]
    spaces = space_ranges(text)
    if "".join(written) != "".join(text[start:end] for start, end in spaces):
        return _locate_bytes(text, tokens, spaces)
    visible = [place for word in spaces for place in range(*word)]
    ranges, first, end = list[Range](), 0, 0
    for name in written:
        if name:
            last = first + len(name)
            start, end = visible[first], visible[last - 1] + 1
            ranges.append((start, end))
            first = last
        else:
            ranges.append((end, end))
    ids = visible_word_ids(tokens)
    words = [(0, 0)] * (max(ids, default=-1) + 1)
    for word, name, place in zip(ids, written, ranges, strict=True):
        if word >= 0 and name:
            words[word] = (words[word][0], place[1]) if words[word][1] else place
    return TokenPlaces(words, Places.of(ranges))


def plain_places(text: str, tokens: Sequence[str]) -> TokenPlaces | None:
    """The places if the tokens spell the text with ▁ for single spaces, which separate words; None otherwise.

    That is so for nearly all sentences of scripts with spaces.
    """
    joined, words = "".join(tokens), text.split()
    if joined.replace(MARK, " ").removeprefix(" ") != text or " ".join(words) != text:
        return None
    if "" in tokens or "<" in joined or not (text.isascii() or SPACELESS.search(text) is None):
        return None  # single bytes, special tokens
    spaces = [token[0] == MARK for token in tokens]
    if sum(spaces) != joined.count(MARK):  # one inside a token
        return None
    before, *ends = accumulate(map(len, tokens), initial=len(text) - len(joined))
    starts = [*map(add, [before, *ends], spaces)]
    for i in [i for i, token in enumerate(tokens) if i and token == MARK] if MARK in tokens else ():
        starts[i] = ends[i] = ends[i - 1]
    return TokenPlaces(single_spaced_ranges(words), Places(starts, ends))


def _locate_bytes(text: str, tokens: Sequence[str], spaces: list[Range]) -> TokenPlaces:
    """The places of tokens some of which are single bytes, or which do not spell the text."""
    groups = [group for group in group_tokens(tokens) if any(is_visible(tokens[i]) for i in group)]
    names = ["".join(spell([tokens[i] for i in group]).split()) for group in groups]
    visible = [place for word in spaces for place in range(*word)]
    if sum(map(len, names)) != len(visible):  # a tokenizer that changes its text: words at spaces may still be the same
        return TokenPlaces(spaces if len(spaces) == len(names) else None, None)
    words, first = list[Range](), 0
    for name in names:
        last = first + len(name) - 1
        words.append((visible[first], visible[last] + 1) if name else (0, 0))
        first = last + 1
    if "".join(spell(tokens).split()) != "".join(text.split()):
        return TokenPlaces(words, None)
    ranges, last = list[Range](), 0
    for group, (start, end) in zip(groups, words, strict=True):
        ranges += [(last, last)] * (group[0] - len(ranges))  # invisible words
        written = [visible_text(tokens[i]) for i in group]
        exact = "".join(written) == text[start:end]
        for name in written:
            last = start + len(name) if exact else end
            ranges.append((start, last))
            start += len(name) if exact else 0
    return TokenPlaces(words, Places.of(ranges + [(last, last)] * (len(tokens) - len(ranges))))


@lru_cache(maxsize=1 << 16)
def visible_text(token: str) -> str:
    """What a token writes, without white space."""
    return "".join(spell([token]).split())


def space_ranges(text: str) -> list[Range]:
    """The place of each word between spaces."""
    words = text.split()
    if " ".join(words) == text:  # nearly all texts; faster than a pattern
        return single_spaced_ranges(words)
    return [found.span() for found in WORD.finditer(text)]


def single_spaced_ranges(words: Sequence[str]) -> list[Range]:
    """The place of each word in a text that has nothing but single spaces between them."""
    end = -1
    return [(end + 1, end := end + 1 + len(word)) for word in words]


@dataclass(frozen=True)
class WordParts:
    """The parts of the words of a text, which of them are marks, and how many parts the words have up to each."""

    text: str
    parts: list[Range] = field(default_factory=list)
    marks: set[int] = field(default_factory=set)
    ends: list[int] = field(default_factory=list)

    def add_words(self, words: Iterable[Range], shift: int = 0) -> None:
        """Divide more words; the sentence in which their places are is at `shift` in the text."""
        text, parts, ends = self.text, self.parts, self.ends
        for start, end in words:
            start, end = start + shift, end + shift
            word = text[start:end]
            if word.isalpha():  # most words
                parts.append((start, end))
            else:
                for low, high, mark in split_word(word):
                    if mark:
                        self.marks.add(len(parts))
                    parts.append((start + low, start + high))
            ends.append(len(parts))

    def add_whole(self, words: Sequence[Range], shift: int = 0) -> None:
        """Add words that are not divided, because no markup is inside their sentence."""
        first = len(self.parts) + 1
        self.parts.extend([(start + shift, end + shift) for start, end in words])
        self.ends.extend(range(first, first + len(words)))


@lru_cache(maxsize=1 << 16)
def split_word(word: str) -> tuple[tuple[int, int, bool], ...]:
    """The parts of a word as (start, end, whether it is a mark): runs of letters, runs of digits, single marks."""
    parts, place = list[tuple[int, int, bool]](), 0
    for kind, run in groupby(word, character_kind):
        size = sum(1 for _ in run)
        if kind == "mark":
            parts += [(place + i, place + i + 1, True) for i in range(size)]
        elif kind == "digit" and parts and word[slice(*parts[-1][:2])] == "X":  # a mask such as X1 stays whole
            parts[-1] = (place - 1, place + size, False)
        else:
            parts.append((place, place + size, False))
        place += size
    return tuple(parts)


def character_kind(character: str) -> str:
    """Letter, digit or mark; the 2 of H2O is a separate part."""
    return "mark" if is_mark(character) else "digit" if character.isdecimal() else "letter"


def is_mark(character: str) -> bool:
    """Whether a character is punctuation or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def link_parts(of_source: WordParts, of_target: WordParts, links: Iterable[Range]) -> Links:
    """Links between the parts of two texts, from links between their words.

    In a linked pair of words, equal punctuation is linked in order, and letters are linked to letters: in order if both
    words have as many runs of them, each to each otherwise.
    """
    found = list[Range]()
    ends, marks, other_ends, other_marks = of_source.ends, of_source.marks, of_target.ends, of_target.marks
    n_source, n_target = len(ends), len(other_ends)
    for s, t in links:
        if s >= n_source or t >= n_target:
            continue
        low, high = ends[s - 1] if s else 0, ends[s]
        first, last = other_ends[t - 1] if t else 0, other_ends[t]
        if high - low == last - first == 1 and low not in marks and first not in other_marks:  # most words
            found.append((low, first))
            continue
        runs = [i for i in range(low, high) if i not in marks]
        other_runs = [i for i in range(first, last) if i not in other_marks]
        if len(runs) == len(other_runs):
            found += zip(runs, other_runs, strict=True)
        else:
            found += [(a, b) for a in runs for b in other_runs]
        free = [i for i in range(first, last) if i in other_marks]
        for i in range(low, high) if free else ():
            if i in marks:
                mark = of_source.text[of_source.parts[i][0]]
                same = next((j for j in free if of_target.text[of_target.parts[j][0]] == mark), None)
                if same is not None:
                    free.remove(same)
                    found.append((i, same))
    return sorted(found)
