"""Constituency trees as lines to translate into (section 6.3), and back, after Vinyals et al. (2015).

A tree is written from left to right with its labels at both brackets, and for every word XX (which is what Vinyals et
al. came to) or its tag:

    John has a dog .   ->   (S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S
                       or   (S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S

A model may write what is no tree, or not one of so many words. `lay_brackets` mends it, and counts what it had to do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dragoman.text.trees.constituency import SPACE, TOP, UNKNOWN, Bracketing, Phrase

WORD: Final = UNKNOWN
SYMBOL: Final = re.compile(rf"[()]?[^()\n{SPACE}]+|[()]")
SENTENCE: Final = re.compile(rf"[^\n{SPACE}]+")
MENDED: Final = {
    "unlabeled": "opening brackets without a label, left out",
    "unopened": "closing brackets of what is not open, left out",
    "unclosed": "brackets closed where an outer one closes, or at the end",
    "empty": "phrases without a word, left out",
    "surplus": "XX or tags beyond the last word, left out",
    "missing": "words beyond the last XX or tag, put at the end of the outermost phrase",
    "roots": "trees and words beside each other, put under one TOP",
}


def bracket_line(tree: Bracketing, tags: bool = False) -> str:
    """The line of a tree, with `tags` or with XX for its words."""
    return " ".join(tree.walk("({}".format, lambda number: tree.tags[number] if tags else WORD, "){}".format))


def words_of(sentence: str) -> list[str]:
    """The words of a sentence as they were written beside the line of its tree."""
    return SENTENCE.findall(sentence)


@dataclass(frozen=True)
class Laid:
    """A line laid over the words of its sentence, and how often something of `MENDED` had to be done."""

    tree: Bracketing
    mended: dict[str, int] = field(default_factory=dict)


def lay_brackets(line: str, words: Sequence[str], tags: Sequence[str] = ()) -> Laid:
    """The tree that a line means, over these words, of which there is at least one; what is no bracket is a word.

    Its tag is what was written for it, or XX where nothing was, unless `tags` are given.
    A closing bracket closes the innermost phrase of its label that is open, and what is open inside it; without a
    label it closes the innermost phrase.
    """
    mended: Counter[str] = Counter()
    phrases: list[Phrase | None] = []
    around: list[tuple[str, int, int]] = []  # label, words before it, and its place in `phrases`
    written: list[str] = []

    def close() -> None:
        label, first, place = around.pop()
        if first == len(written):
            mended["empty"] += 1
        elif first < len(words):  # beyond the last word there is nothing to lay it over
            phrases[place] = Phrase(label, first, min(len(written), len(words)))

    for symbol in SYMBOL.findall(line):
        kind, label = symbol[0], symbol[1:]
        if kind not in "()":
            written.append(symbol)
        elif kind == "(" and label:
            around.append((label, len(written), len(phrases)))
            phrases.append(None)
        elif kind == "(":
            mended["unlabeled"] += 1
        elif not around or (label and all(label != one for one, _, _ in around)):
            mended["unopened"] += 1
        else:
            while label and around[-1][0] != label:
                mended["unclosed"] += 1
                close()
            close()
    mended["unclosed"] += len(around)
    while around:
        close()
    mended["surplus"] += max(0, len(written) - len(words))
    mended["missing"] += max(0, len(words) - len(written))
    found = [phrase for phrase in phrases if phrase is not None]
    if found and found[0].first == 0 and found[0].end == min(len(written), len(words)):  # it has all that was written
        found[0] = Phrase(found[0].label, 0, len(words))
    else:
        found.insert(0, Phrase(TOP, 0, len(words)))
        mended["roots"] += bool(written)
    told = tags or [*written[: len(words)], *[UNKNOWN] * (len(words) - len(written))]
    tree = Bracketing(tuple(words), tuple(told), tuple(found))
    return Laid(tree, {kind: mended[kind] for kind in MENDED if mended[kind]})
