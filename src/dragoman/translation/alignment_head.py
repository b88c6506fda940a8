"""Find the cross-attention head that aligns words, without gold alignments.

Heads specialize. In one model the mean of a layer's heads aligns words well; in another a single head does, and every
mean is a blur (docs/howto/inspecting.md has figures). A head that aligns links the same words again and again. So the
model translates some of its own words in random order, and the head whose links have the highest pointwise mutual
information is chosen.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

from dragoman.engines.forced import EncodedPairs, ForcedEngine, attention_layer, select_head
from dragoman.search.types import RecordedHead, Search
from dragoman.text import Tokenizer
from dragoman.text.normalization import MARK, SPACELESS
from dragoman.text.trees.token_depths import ParsedIds

MAX_WORDS, SENTENCES, LENGTH = 100, 80, 6
OTHER_SHARE: Final = 0.3  # of the attention of other heads than the guided one (chosen on half of a gold set)
SINGLE_COUNT: Final = 0.01  # the count of a pair that occurs once, instead of 0


@dataclass(frozen=True)
class AlignmentHead:
    """A cross-attention head, or with None the mean of a layer's heads, at the step that writes or reads a token.

    A step reads token t - 1 and writes token t. The attention at the step that reads a token, one after it was written,
    is often the better alignment (Chen et al., 2020). Layers and heads are counted from 0.
    """

    layer: int
    head: int | None
    step: Literal["writes", "reads"]

    def select(self, weights: Any) -> Any:
        """The rows `[T, S + 1]` of the weights `[L, H, T + 1, S + 1]` of a pair; the last column is the EOS token."""
        return self.rows(select_head(weights, RecordedHead(self.layer, self.head)))

    def rows(self, weights: Any) -> Any:
        """The rows `[T, S + 1]` of this head's weights `[T + 1, S + 1]`."""
        return weights[:-1] if self.step == "writes" else weights[1:]

    def __str__(self) -> str:
        heads = "mean of the heads" if self.head is None else f"head {self.head + 1}"
        return f"decoder layer {self.layer + 1}, {heads}, at the step that {self.step} a token"


@dataclass(frozen=True)
class AlignmentAttention:
    """The attention by which words are aligned: that of the alignment head, mixed with that of `other`, if given.

    With a guided head, `other` is the mean of the last decoder layer at the step that writes a token: it is uncertain
    about other words than the guided head (benchmarks/results/alignment.md).
    """

    head: AlignmentHead
    other: AlignmentHead | None = None

    def __str__(self) -> str:
        return f"{self.head}" if self.other is None else f"{self.head}; {OTHER_SHARE:.0%} {self.other}"

    @property
    def recorded(self) -> list[RecordedHead]:
        """What an engine records for it."""
        return [RecordedHead(one.layer, one.head) for one in (self.head, self.other) if one is not None]

    def select(self, weights: Any) -> Any:
        """The rows `[T, S + 1]` of the weights `[L, H, T + 1, S + 1]` of a pair; the last column is the EOS token."""
        return self.mix([select_head(weights, one) for one in self.recorded])

    def mix(self, maps: Sequence[Any]) -> Any:
        """The rows `[T, S + 1]` of the weights `[T + 1, S + 1]` of the recorded heads; an array of its own."""
        if self.other is None:
            return self.head.rows(maps[0]).copy()
        return (1 - OTHER_SHARE) * self.head.rows(maps[0]) + OTHER_SHARE * self.other.rows(maps[1])


def alignment_attention(engine: ForcedEngine, pairs: EncodedPairs, attention: AlignmentAttention) -> list[Any]:
    """The attention `[T, S + 1]` of each pair, for `align`."""
    found: list[Any] = [None] * len(pairs)
    for i, weights in engine.cross_maps(pairs):
        found[i] = attention.select(weights)
    return found


def find_alignment_head(engine: ForcedEngine, source: Tokenizer) -> AlignmentHead:
    """The head of this model that aligns best; deterministic."""
    languages = [[source.target_id(code)] for code in source.targets] or [[]]
    trials = [[*languages[i % len(languages)], *ids] for i, ids in enumerate(trial_sources(source))]
    sources = [ParsedIds(ids, [0] * len(ids)) for ids in trials]  # words without a sentence: each is a root
    if not sources:
        _, weights = next(engine.cross_maps([(ParsedIds([], []), [])]))
        return AlignmentHead(attention_layer(len(weights)), None, "writes")
    hypotheses = engine.search(sources, Search(beam=1, extra_length=LENGTH))
    pairs = [(ids, best[0].ids) for ids, best in zip(sources, hypotheses, strict=True)]
    language_tokens = {token for tokens in languages for token in tokens}
    links: dict[AlignmentHead, list[tuple[int, int]]] = {}
    for i, weights in engine.cross_maps(pairs):
        ids = [-1 if token in language_tokens else token for token in pairs[i][0]] + [-1]  # EOS
        for head in candidate_heads(*weights.shape[:2]):
            linked = head.select(weights).argmax(1)
            links.setdefault(head, []).extend(zip((ids[s] for s in linked), pairs[i][1], strict=True))
    return max(links, key=lambda head: association(links[head]))


def candidate_heads(layers: int, heads: int) -> list[AlignmentHead]:
    """All heads, and the means of each layer, at both steps."""
    return [
        AlignmentHead(layer, head, step)
        for layer in range(layers)
        for head in ((None, *range(heads)) if heads > 1 else (None,))
        for step in ("writes", "reads")
    ]


def trial_sources(tokenizer: Tokenizer) -> list[list[int]]:
    """Frequent words of the vocabulary in random order, each in several contexts."""
    tokens = tokenizer.tokens(range(tokenizer.vocabulary_size))
    words = [
        number
        for number, token in enumerate(tokens)
        if (token.startswith(MARK) and len(token) > 4 and token[1:].isalpha()) or SPACELESS.match(token)
    ][:MAX_WORDS]
    generator = Random(1)
    return [generator.sample(words, LENGTH) for _ in range(SENTENCES)] if len(words) >= 2 * LENGTH else []


def association(links: Sequence[tuple[int, int]]) -> float:
    """Leave-one-out mean pointwise mutual information of linked tokens; -1 links to nothing."""
    both = Counter(links)
    ones, others = Counter(one for one, _ in links), Counter(other for _, other in links)
    n = len(links)
    terms: Iterator[float] = (
        count * math.log((count - 1 + SINGLE_COUNT) * n / (ones[one] * others[other]))
        for (one, other), count in both.items()
        if one >= 0
    )
    return sum(terms) / max(1, n)
