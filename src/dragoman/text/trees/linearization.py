"""Constituency trees as lines to translate into (section 6.3), and back, after Vinyals et al. (2015).

A tree is written from left to right with labels at both brackets, and for every word XX (the choice of Vinyals et al.)
or its tag:

    John has a dog .   ->   (S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S
                       or   (S (NP NNP )NP (VP VBZ (NP DT NN )NP )VP . )S

A model may write a line that is not a tree of the sentence. `parse_bracket_line` repairs it, and counts the repairs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from dragoman.text.trees.constituency import SPACE, TOP, UNKNOWN_TAG, Bracketing, Phrase

WORD_SYMBOL: Final = UNKNOWN_TAG
SYMBOL: Final = re.compile(rf"[()]?[^()\n{SPACE}]+|[()]")
SENTENCE: Final = re.compile(rf"[^\n{SPACE}]+")
REPAIRS: Final = {
    "unlabeled": "opening brackets without a label, left out",
    "unopened": "closing brackets without an open phrase, left out",
    "unclosed": "brackets closed where an outer one closes, or at the end",
    "empty": "phrases without a word, left out",
    "surplus": "XX or tags beyond the last word, left out",
    "missing": "words beyond the last XX or tag, put at the end of the outermost phrase",
    "roots": "trees and words next to each other, put under one TOP",
}


def bracket_line(tree: Bracketing, tags: bool = False) -> str:
    """A tree as a line, with `tags` or with XX for its words."""
    return " ".join(tree.walk("({}".format, lambda number: tree.tags[number] if tags else WORD_SYMBOL, "){}".format))


def split_words(sentence: str) -> list[str]:
    """The words of a sentence, separated by white space."""
    return SENTENCE.findall(sentence)


@dataclass(frozen=True)
class ParsedLine:
    """The tree of a line, and the number of repairs of each kind in `REPAIRS`."""

    tree: Bracketing
    repairs: dict[str, int] = field(default_factory=dict)


def parse_bracket_line(line: str, words: Sequence[str], tags: Sequence[str] = ()) -> ParsedLine:
    """Parse a line to a tree over at least one word; everything that is not a bracket stands for a word.

    Unless `tags` are given, a word's tag comes from the line, or is XX if the line has none.
    A closing bracket closes the innermost open phrase with its label, and everything open inside it; without a label
    it closes the innermost phrase.
    """
    repairs: Counter[str] = Counter()
    phrases: list[Phrase | None] = []
    around: list[tuple[str, int, int]] = []  # label, words before it, and its index in `phrases`
    written: list[str] = []

    def close() -> None:
        label, first, index = around.pop()
        if first == len(written):
            repairs["empty"] += 1
        elif first < len(words):  # after the last word, a phrase would cover nothing
            phrases[index] = Phrase(label, first, min(len(written), len(words)))

    for symbol in SYMBOL.findall(line):
        kind, label = symbol[0], symbol[1:]
        if kind not in "()":
            written.append(symbol)
        elif kind == "(" and label:
            around.append((label, len(written), len(phrases)))
            phrases.append(None)
        elif kind == "(":
            repairs["unlabeled"] += 1
        elif not around or (label and all(label != one for one, _, _ in around)):
            repairs["unopened"] += 1
        else:
            while label and around[-1][0] != label:
                repairs["unclosed"] += 1
                close()
            close()
    repairs["unclosed"] += len(around)
    while around:
        close()
    repairs["surplus"] += max(0, len(written) - len(words))
    repairs["missing"] += max(0, len(words) - len(written))
    found = [phrase for phrase in phrases if phrase is not None]
    if found and found[0].first == 0 and found[0].end == min(len(written), len(words)):  # covers everything
        found[0] = Phrase(found[0].label, 0, len(words))
    else:
        found.insert(0, Phrase(TOP, 0, len(words)))
        repairs["roots"] += bool(written)
    all_tags = tags or [*written[: len(words)], *[UNKNOWN_TAG] * (len(words) - len(written))]
    tree = Bracketing(tuple(words), tuple(all_tags), tuple(found))
    return ParsedLine(tree, {kind: repairs[kind] for kind in REPAIRS if repairs[kind]})
