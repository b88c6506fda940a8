"""Which head of a model points at the word that is being translated: found by trying, with no alignment to learn from.

Heads have trades. In one model the mean of a layer's heads aligns words well; in another a single head does, and every
mean is a blur (docs/inspecting.md has figures). A head that points links the same words again and again. So the model
translates some of its own words in random order, and the head whose links have the highest pointwise mutual information
is taken.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

from dragoman.engines.forced_decoding import Pairs, cross_maps
from dragoman.engines.torch import TorchEngine
from dragoman.search.types import Search
from dragoman.text import Tokenizer
from dragoman.text.trees.token_depths import Parsed
from dragoman.text.words import MARK, SPACELESS

WORDS, SENTENCES, LENGTH = 100, 80, 6
SELDOM: Final = 0.01  # what a pair that comes once counts for, instead of nothing


@dataclass(frozen=True)
class Pointer:
    """A head of a decoder layer, or with None the mean of its heads, at the step that writes or that reads a token.

    A step reads token t - 1 and writes token t. What a token looks at as it is read, a step after it was written, is
    often the better alignment (Chen et al., 2020). Layers and heads are counted from 0.
    """

    layer: int
    head: int | None
    step: Literal["writes", "reads"]

    def of(self, weights: Any) -> Any:
        """The rows `[T, S + 1]` of the weights `[L, H, T + 1, S + 1]` of a pair; the last column is the end mark."""
        layer = weights[self.layer]
        rows = layer.mean(0) if self.head is None else layer[self.head]
        return rows[:-1] if self.step == "writes" else rows[1:]

    def __str__(self) -> str:
        heads = "mean of the heads" if self.head is None else f"head {self.head + 1}"
        return f"decoder layer {self.layer + 1}, {heads}, at the step that {self.step} a token"


def pointed(engine: TorchEngine, pairs: Pairs, pointer: Pointer) -> list[Any]:
    """For each pair, `[T, S + 1]`: where the pointer points, for `align`."""
    found: list[Any] = [None] * len(pairs)
    for i, weights in cross_maps(engine, pairs):
        found[i] = pointer.of(weights).copy()
    return found


def find_pointer(engine: TorchEngine, source: Tokenizer, target: Tokenizer) -> Pointer:
    """The head that points, of this model; the same each time."""
    languages = [[source.target_id(code)] for code in source.targets] or [[]]
    trials = [[*languages[i % len(languages)], *ids] for i, ids in enumerate(trial_sources(source))]
    sources = [Parsed(ids, [0] * len(ids)) for ids in trials]  # words in no sentence: each a root
    if not sources:
        return Pointer(max(0, len(next(cross_maps(engine, [(Parsed([], []), [])]))[1]) - 2), None, "writes")
    hypotheses = engine.search(sources, Search(beam=1, extra_length=LENGTH))
    pairs = [(ids, best[0].tokens) for ids, best in zip(sources, hypotheses, strict=True)]
    marks = {mark for head in languages for mark in head}
    links: dict[Pointer, list[tuple[int, int]]] = {}
    for i, weights in cross_maps(engine, pairs):
        ids = [-1 if token in marks else token for token in pairs[i][0]] + [-1]  # the end mark
        for rule in pointers(*weights.shape[:2]):
            places = rule.of(weights).argmax(1)
            links.setdefault(rule, []).extend(zip((ids[place] for place in places), pairs[i][1], strict=True))
    return max(links, key=lambda rule: association(links[rule]))


def pointers(layers: int, heads: int) -> list[Pointer]:
    """All that there are in a model with so many layers and heads of attention to the source; one head is its mean."""
    return [
        Pointer(layer, head, step)
        for layer in range(layers)
        for head in ((None, *range(heads)) if heads > 1 else (None,))
        for step in ("writes", "reads")
    ]


def trial_sources(tokenizer: Tokenizer) -> list[list[int]]:
    """Words of the vocabulary, the frequent ones, in random order: they come again in other company."""
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    words = [
        number
        for number, token in enumerate(tokens)
        if (token.startswith(MARK) and len(token) > 4 and token[1:].isalpha()) or SPACELESS.match(token)
    ][:WORDS]
    draw = Random(1)
    return [draw.sample(words, LENGTH) for _ in range(SENTENCES)] if len(words) >= 2 * LENGTH else []


def association(links: Sequence[tuple[int, int]]) -> float:
    """The mean pointwise mutual information of linked tokens, each link judged by the others; -1 links to nothing."""
    both = Counter(links)
    ones, others = Counter(one for one, _ in links), Counter(other for _, other in links)
    n = len(links)
    terms: Iterator[float] = (
        count * math.log((count - 1 + SELDOM) * n / (ones[one] * others[other]))
        for (one, other), count in both.items()
        if one >= 0
    )
    return sum(terms) / max(1, n)
