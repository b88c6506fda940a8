"""Finding the alignment head among others, and distinguishing its links from chance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dragoman.translation.alignment_head as pointing
from dragoman.search.types import Hypothesis
from dragoman.text import Tokenizer
from dragoman.text.learn import learn
from dragoman.translation.alignment_head import (
    OTHER_SHARE,
    AlignmentAttention,
    AlignmentHead,
    association,
    find_alignment_head,
    trial_sources,
)
from dragoman.translation.translator import Translator
from tiny_model import write_tiny_model

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


def test_a_guided_head_is_mixed_with_the_last_layer() -> None:
    weights = np.random.default_rng(3).random((LAYERS, HEADS, 5, 7))
    attention = AlignmentAttention(AlignmentHead(0, 2, "reads"), AlignmentHead(1, None, "writes"))
    expected = (1 - OTHER_SHARE) * weights[0, 2, 1:] + OTHER_SHARE * weights[1].mean(0)[:-1]
    np.testing.assert_allclose(attention.select(weights), expected)
    alone = AlignmentAttention(AlignmentHead(0, 2, "reads"))
    np.testing.assert_array_equal(alone.select(weights), weights[0, 2, 1:])


@pytest.mark.parametrize("engine", ["native", "torch"])
def test_engines_record_what_words_are_aligned_by(tmp_path: Path, engine: str) -> None:
    guided = ("train.alignment_weight=0.1", "train.alignment_layer=1", "train.alignment_head=2")
    directory = write_tiny_model(tmp_path / "guided", *guided)
    translator = Translator.load(directory, device="cpu", engine=engine, precision="float32")
    assert translator.alignment_attention.other == AlignmentHead(1, None, "writes")
    plain, both = (translator.translate("the old box", alignment=True, attention=more) for more in (False, True))
    pair = translator.encoded(["the old box"])[0], translator.target.to_ids(plain.tokens)
    ((_, weights),) = translator.engines.forced().cross_maps([pair])
    expected = translator.alignment_attention.select(weights)[:, :-1]
    assert both.attention is not None and plain.attention is None
    for found in (plain, both):
        np.testing.assert_allclose(found.alignment_weights, expected, atol=1e-5)
    other = AlignmentHead(0, 1, "reads").select(weights)[:, :-1]
    assert abs(other - expected).max() > 0.01


def test_a_guided_head_of_the_last_layer_and_a_found_head_are_alone(tmp_path: Path, directory: Path) -> None:
    guided = ("train.alignment_weight=0.1", "train.alignment_layer=2", "train.alignment_head=2")
    last = Translator.load(write_tiny_model(tmp_path / "last", *guided), device="cpu")
    assert last.alignment_attention == AlignmentAttention(AlignmentHead(1, 1, "reads"))
    found = Translator.load(directory, device="cpu")
    assert found.alignment_attention == AlignmentAttention(found.alignment_head)


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
    assert find_alignment_head(engine, tokenizer) == right


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
        assert find_alignment_head(engine, letters) == AlignmentHead(usual, None, "writes")
