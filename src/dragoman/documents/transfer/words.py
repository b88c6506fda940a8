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
from itertools import groupby
from typing import Any, Final

from dragoman.text.word_groups import group_tokens, is_visible, spell

WORD: Final = re.compile(r"\S+")
Range = tuple[int, int]
Links = frozenset[tuple[int, int]]


def word_ranges(text: str, tokens: Sequence[str]) -> list[Range] | None:
    """The place in `text` of each visible word that `tokens` form; None if the tokens do not spell the text.

    Words are counted as in `Translation.alignment`.
    """
    groups = [[tokens[i] for i in group] for group in group_tokens(tokens)]
    names = ["".join(spell(group).split()) for group in groups if any(map(is_visible, group))]
    visible = [place for place, character in enumerate(text) if not character.isspace()]
    if sum(map(len, names)) != len(visible):  # a tokenizer that changes its text: words at spaces may still be the same
        spaces = space_ranges(text)
        return spaces if len(spaces) == len(names) else None
    ranges, first = list[Range](), 0
    for name in names:
        last = first + len(name) - 1
        ranges.append((visible[first], visible[last] + 1) if name else (0, 0))
        first = last + 1
    return ranges


def token_ranges(text: str, tokens: Sequence[str], words: Sequence[Range] | None = None) -> list[Range] | None:
    """The place in `text` of each token; of tokens for single bytes, that of their word. None as in `word_ranges`.

    `words` are the `word_ranges`, if they are known.
    """
    words = word_ranges(text, tokens) if words is None else words
    if words is None or "".join(spell(tokens).split()) != "".join(text.split()):
        return None
    ranges, places = [(0, 0)] * len(tokens), iter(words)
    for group in group_tokens(tokens):
        if not any(is_visible(tokens[i]) for i in group):
            continue
        start, end = next(places)
        sizes = ["".join(spell([tokens[i]]).split()) for i in group]
        exact = "".join(sizes) == text[start:end]
        for i, size in zip(group, sizes, strict=True):
            ranges[i] = (start, start + len(size)) if exact else (start, end)
            start += len(size) if exact else 0
    return ranges


def part_weights(weights_TS: Any, tokens: Sequence[Range], parts: Sequence[Range]) -> Any:
    """Attention `[T, P]` from attention to source tokens `[T, S]`: of each target token to parts; rows sum to 1 or 0.

    The weight of a token that is in several parts is divided among them by their length.
    """
    import numpy as np

    shares = np.zeros((len(tokens), len(parts)))
    first = 0
    for i, (start, end) in enumerate(tokens):
        while first < len(parts) and parts[first][1] <= start:
            first += 1
        for p in range(first, len(parts)):
            if parts[p][0] >= end:
                break
            shares[i, p] = (min(end, parts[p][1]) - max(start, parts[p][0])) / (end - start)
    pooled = np.asarray(weights_TS, dtype=np.float64) @ shares
    return pooled / np.maximum(pooled.sum(1, keepdims=True), 1e-12)


def space_ranges(text: str) -> list[Range]:
    """The place of each word between spaces."""
    return [found.span() for found in WORD.finditer(text)]


def split_parts(text: str, word: Range) -> list[Range]:
    """The parts of a word: runs of letters, runs of digits, and single other characters."""
    parts, place = list[Range](), word[0]
    piece = text[word[0] : word[1]]
    if piece.isalpha():  # most words
        return [word]
    if piece[:-1].isalpha() and is_mark(piece[-1]):
        return [(place, word[1] - 1), (word[1] - 1, word[1])]
    for kind, run in groupby(piece, character_kind):
        size = sum(1 for _ in run)
        if kind == "mark":
            parts += [(place + i, place + i + 1) for i in range(size)]
        elif kind == "digit" and parts and text[slice(*parts[-1])] == "X":  # a mask such as X1 stays whole
            parts[-1] = (place - 1, place + size)
        else:
            parts.append((place, place + size))
        place += size
    return parts


def character_kind(character: str) -> str:
    """Letter, digit or mark; the 2 of H2O is a separate part."""
    return "mark" if is_mark(character) else "digit" if character.isdecimal() else "letter"


def is_mark(character: str) -> bool:
    """Whether a character is punctuation or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def link_parts(
    source: str,
    target: str,
    source_words: Sequence[Sequence[Range]],
    target_words: Sequence[Sequence[Range]],
    links: Iterable[Range],
) -> tuple[list[Range], list[Range], Links]:
    """The parts of both texts, and links between parts, from links between words; words are given as their parts.

    In a linked pair of words, equal punctuation is linked in order, and letters are linked to letters: in order if both
    words have as many runs of them, each to each otherwise.
    """
    sides: list[tuple[list[Range], list[list[int]]]] = []
    for words in (source_words, target_words):
        parts: list[Range] = []
        of_word: list[list[int]] = []
        for word in words:
            of_word.append([*range(len(parts), len(parts) + len(word))])
            parts += word
        sides.append((parts, of_word))
    (source_parts, of_source), (target_parts, of_target) = sides
    found_links: set[Range] = set()
    for s, t in links:
        if s >= len(of_source) or t >= len(of_target):
            continue
        runs = [
            [i for i in parts if not is_mark(text[all_parts[i][0]])]
            for parts, all_parts, text in ((of_source[s], source_parts, source), (of_target[t], target_parts, target))
        ]
        if len(runs[0]) == len(runs[1]):
            found_links.update(zip(*runs, strict=True))
        else:
            found_links.update((a, b) for a in runs[0] for b in runs[1])
        marks = [
            [(text[slice(*all_parts[i])], i) for i in parts if is_mark(text[all_parts[i][0]])]
            for parts, all_parts, text in ((of_source[s], source_parts, source), (of_target[t], target_parts, target))
        ]
        free = list(marks[1])
        for mark, i in marks[0]:
            same = next((pair for pair in free if pair[0] == mark), None)
            if same is not None:
                free.remove(same)
                found_links.add((i, same[1]))
    return source_parts, target_parts, frozenset(found_links)
