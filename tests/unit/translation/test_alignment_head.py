"""Finding the alignment head among others, and distinguishing its links from chance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dragoman.translation.alignment_head as pointing
from dragoman.search.types import Hypothesis
from dragoman.text import Tokenizer, learn
from dragoman.translation.alignment_head import AlignmentHead, association, find_alignment_head, trial_sources

LAYERS, HEADS = 2, 3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    words = "house river window garden morning evening teacher student kitchen station picture country winter summer"
    return learn("bpe", [words] * 5, 420)


def test_association_by_hand() -> None:
    # Each pair comes twice of four: 2 links judged by the other one, with n = 4 and marginals of 2.
    assert association([(1, 7), (1, 7), (2, 8), (2, 8)]) == pytest.approx(math.log(1.01 * 4 / (2 * 2)))
    # Pairs that never come again say the opposite of association.
    assert association([(1, 7), (1, 8), (2, 7), (2, 8)]) == pytest.approx(math.log(0.01 * 4 / (2 * 2)))
    # What links to nothing adds nothing, but counts.
    assert association([(1, 7), (1, 7), (-1, 8), (-1, 9)]) == pytest.approx(2 * math.log(1.01 * 4 / (2 * 2)) / 4)
    assert association([]) == 0


def test_rows_of_a_pointer() -> None:
    weights = np.random.default_rng(3).random((LAYERS, HEADS, 5, 7))
    np.testing.assert_array_equal(AlignmentHead(1, 2, "writes").select(weights), weights[1, 2, :4])
    np.testing.assert_array_equal(AlignmentHead(1, 2, "reads").select(weights), weights[1, 2, 1:])
    np.testing.assert_allclose(AlignmentHead(0, None, "reads").select(weights), weights[0].mean(0)[1:])
    assert str(AlignmentHead(0, 2, "reads")) == "decoder layer 1, head 3, at the step that reads a token"


@pytest.mark.parametrize(
    "right", [AlignmentHead(1, 2, "reads"), AlignmentHead(0, 1, "writes"), AlignmentHead(1, 0, "writes")]
)
def test_the_head_that_points_is_found(right: AlignmentHead, tokenizer: Tokenizer) -> None:
    """A pretended model writes each word as another, in another order; one head of it points at it, others anywhere."""
    draw = np.random.default_rng(5)
    orders: list[Any] = []

    def search(sources: list[list[int]], search: Any) -> list[list[Hypothesis]]:
        orders.extend(draw.permutation(len(ids)) for ids in sources)
        return [
            [Hypothesis([ids[i] + 1000 for i in order], 0.0, 0.0)] for ids, order in zip(sources, orders, strict=True)
        ]

    def maps(pairs: list[tuple[list[int], list[int]]]) -> Iterator[tuple[int, Any]]:
        for i, (ids, written) in enumerate(pairs):
            weights = draw.random((LAYERS, HEADS, len(written) + 1, len(ids) + 1))
            shift = 1 if right.step == "reads" else 0
            for t, s in enumerate(orders[i]):
                weights[right.layer, right.head, t + shift, s] = 2
            yield i, weights

    engine: Any = SimpleNamespace(search=search, cross_maps=maps)
    assert find_alignment_head(engine, tokenizer, tokenizer) == right


def test_trials_are_whole_words_and_always_the_same(tokenizer: Tokenizer) -> None:
    sources = trial_sources(tokenizer)
    assert len(sources) == pointing.SENTENCES
    assert sources == trial_sources(tokenizer)
    for ids in sources:
        assert len(set(ids)) == pointing.LENGTH
        assert all(len(word) > 3 and word.isalpha() for word in tokenizer.decode(ids).split())


def test_a_vocabulary_without_words_gets_the_usual_layer() -> None:
    letters = learn("bpe", ["a b c d"] * 3, 265)
    for layers, usual in ((5, 3), (1, 0)):
        engine: Any = SimpleNamespace(cross_maps=lambda _, n=layers: iter([(0, np.ones((n, 2, 1, 1)))]))
        assert find_alignment_head(engine, letters, letters) == AlignmentHead(usual, None, "writes")
