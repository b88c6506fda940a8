"""Constituency trees against those of people: labeled bracketing as EVALB counts it with COLLINS.prm (section 6.3).

As there: a phrase is right where its label and its words are; punctuation (by the tags of the right tree) is taken out
of both trees first, and with it phrases of nothing else; TOP does not count; ADVP and PRT are one label; of phrases
alike in one sentence as many are right as both trees have; figures are over all phrases of all sentences. Not as
there: no sentence is skipped for its number of words, as what was written is laid over the words it should have, and
there are no figures for crossing brackets, for tags, or for sentences of at most 40 words alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from dragoman.errors import DataError
from dragoman.text.trees.constituency import TOP, Bracketing

PUNCTUATION: Final = frozenset({",", ":", "``", "''", "."})  # tags
SAME: Final = {"PRT": "ADVP"}

Counted = Counter[tuple[str, int, int]]


@dataclass(frozen=True)
class BracketScore:
    """How many phrases are right, of those that were written and of those that should have been; sentences too."""

    right: int
    written: int
    gold: int
    exact: int
    sentences: int

    @property
    def precision(self) -> float:
        """The share of what was written that is right, from 0 to 1."""
        return self.right / max(1, self.written)

    @property
    def recall(self) -> float:
        """The share of what should have been written that was, from 0 to 1."""
        return self.right / max(1, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.right / max(1, self.written + self.gold)

    @property
    def complete(self) -> float:
        """The share of sentences with all of it right and nothing else."""
        return self.exact / max(1, self.sentences)


def score_brackets(pairs: Iterable[tuple[Bracketing, Bracketing]]) -> BracketScore:
    """The figures of pairs of trees over the same words: what was written, and what is right."""
    right = written = gold = exact = sentences = 0
    for one, other in pairs:
        if one.words != other.words:
            raise DataError(
                f"{other.where}: {len(one.words)} words are not the {len(other.words)} of the right tree, from "
                f"{parting(one.words, other.words)}; both need the same words, in the same order"
            )
        found, expected = (counted(tree, other.tags) for tree in (one, other))
        both = (found & expected).total()
        right, written, gold = right + both, written + found.total(), gold + expected.total()
        exact, sentences = exact + (found == expected), sentences + 1
    return BracketScore(right, written, gold, exact, sentences)


def counted(tree: Bracketing, tags: Iterable[str]) -> Counted:
    """The phrases that count, over the words that count; these are by the tags of the right tree."""
    before = [0, *accumulate(tag not in PUNCTUATION for tag in tags)]
    phrases = ((SAME.get(p.label, p.label), before[p.first], before[p.end]) for p in tree.phrases if p.label != TOP)
    return Counter(phrase for phrase in phrases if phrase[1] < phrase[2])


def parting(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    """Where two sentences part, in words."""
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"word {same + 1}, {' '.join(one[same : same + 1])!r} and {' '.join(other[same : same + 1])!r},"
