"""Labeled bracketing scores of constituency trees, as in EVALB with COLLINS.prm (section 6.3).

As in EVALB: a phrase is correct if its label and words are correct; punctuation (by the gold tags) is removed from both
trees, as are phrases that consist of punctuation; TOP does not count; ADVP and PRT are one label; equal phrases count
as often as both trees have them; scores are over all phrases of all sentences. Unlike EVALB: no sentence is skipped,
because trees are fitted to the words of their sentence, and there are no scores for crossing brackets, tags, or
sentences of up to 40 words.
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
SAME_LABEL: Final = {"PRT": "ADVP"}

Phrases = Counter[tuple[str, int, int]]


@dataclass(frozen=True)
class BracketScore:
    """The number of correct, predicted and gold phrases, and of exact and all sentences."""

    correct: int
    predicted: int
    gold: int
    exact: int
    sentences: int

    @property
    def precision(self) -> float:
        """The share of predicted phrases that are correct."""
        return self.correct / max(1, self.predicted)

    @property
    def recall(self) -> float:
        """The share of gold phrases that were found."""
        return self.correct / max(1, self.gold)

    @property
    def f1(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.correct / max(1, self.predicted + self.gold)

    @property
    def exact_share(self) -> float:
        """The share of sentences whose phrases all match."""
        return self.exact / max(1, self.sentences)


def score_brackets(pairs: Iterable[tuple[Bracketing, Bracketing]]) -> BracketScore:
    """Score pairs (predicted tree, gold tree) over the same words."""
    correct = predicted = gold = exact = sentences = 0
    for one, other in pairs:
        if one.words != other.words:
            raise DataError(
                f"{other.where}: the trees have different words ({len(one.words)} and {len(other.words)}), from "
                f"{first_difference(one.words, other.words)}; both need the same words in the same order",
                code="tree_mismatch",
            )
        found, expected = (count_phrases(tree, other.tags) for tree in (one, other))
        both = (found & expected).total()
        correct, predicted, gold = correct + both, predicted + found.total(), gold + expected.total()
        exact, sentences = exact + (found == expected), sentences + 1
    return BracketScore(correct, predicted, gold, exact, sentences)


def count_phrases(tree: Bracketing, tags: Iterable[str]) -> Phrases:
    """The phrases to score, over the words that are not punctuation by the gold tags."""
    before = [0, *accumulate(tag not in PUNCTUATION for tag in tags)]
    counting = (p for p in tree.phrases if p.label != TOP)
    phrases = ((SAME_LABEL.get(p.label, p.label), before[p.first], before[p.end]) for p in counting)
    return Counter(phrase for phrase in phrases if phrase[1] < phrase[2])


def first_difference(one: tuple[str, ...], other: tuple[str, ...]) -> str:
    """Describe the first difference between two sentences."""
    same = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"word {same + 1}, {' '.join(one[same : same + 1])!r} and {' '.join(other[same : same + 1])!r}"
