"""Forced decoding and recorded attention of the C engine against PyTorch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.engines.forced import EncodedPairs, select_head
from dragoman.engines.native import NativeEngine
from dragoman.engines.torch import TorchEngine
from dragoman.errors import SearchError, ShapeError
from dragoman.search.types import Mean, RecordedHead, Search
from native_engines import load_ensembles, load_native
from raising import raises
from random_models import PAPER, sentences, write_random, write_with_nan


def random_pairs(engine: NativeEngine, count: int) -> EncodedPairs:
    """Pairs of unequal lengths, and some that are empty on a side."""
    sources, targets = sentences(count, engine.vocabulary[0]), sentences(count, engine.vocabulary[1], seed=7)
    return [*zip(sources, targets, strict=True), ([], targets[0]), (sources[0], []), ([], [])]


def test_scores_and_maps_agree_with_the_reference(model: Path) -> None:
    reference, engine = TorchEngine.load(model), load_native(model, threads=2)
    pairs = random_pairs(engine, 30)
    expected, found = reference.log_probabilities(pairs), engine.log_probabilities(pairs, 8)
    for (_, target), one, other in zip(pairs, found, expected, strict=True):
        assert len(one) == len(target) + 1
        np.testing.assert_allclose(one, other, atol=1e-4)
    maps = dict(engine.cross_maps(pairs))
    assert sorted(maps) == [*range(len(pairs))]
    for i, weights in reference.cross_maps(pairs):
        assert maps[i].shape == weights.shape
        np.testing.assert_allclose(maps[i], weights, atol=1e-5)


def test_maps_of_every_kind_layer_and_head_agree_with_the_reference(model: Path) -> None:
    reference, engine = TorchEngine.load(model), load_native(model, threads=2)
    for source, target in random_pairs(engine, 6)[3:]:
        expected, found = reference.attention_maps(source, target), engine.attention_maps(source, target)
        own = {"decoder"} if engine.recipe.autoregression == "self_attention" else set()
        assert set(found) == set(expected) == {"cross", "encoder", *own}
        for kind, weights in expected.items():
            assert found[kind].shape == weights.shape
            np.testing.assert_allclose(found[kind], weights, atol=1e-5)


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
def test_scores_of_ensembles_agree_with_the_reference(mean: Mean, tmp_path: Path) -> None:
    larger = replace(PAPER, d_model=64, n_heads=4, decoder_layers=1, positions="rotary")
    places = [write_random(tmp_path / str(i), recipe, 137, i) for i, recipe in enumerate((PAPER, larger, PAPER))]
    reference, engine = load_ensembles(places, mean)
    pairs = random_pairs(engine, 30)
    found = engine.log_probabilities(pairs, 9)
    for one, other in zip(found, reference.log_probabilities(pairs), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert [engine.log_probabilities([pair])[0] for pair in pairs[:5]] == found[:5]
    for ask in (lambda: next(engine.cross_maps(pairs)), lambda: engine.attention_maps(*pairs[0])):
        with raises(SearchError, "no_attention"):
            ask()


@pytest.mark.parametrize("quantize", [False, True])
def test_recorded_heads_agree_with_a_forced_pass(model: Path, quantize: bool) -> None:
    engine = load_native(model, quantize=quantize)
    layers, heads = engine.recipe.decoder_layers, engine.recipe.n_heads
    record = [RecordedHead(max(0, layers - 2), None), RecordedHead(layers - 1, heads - 1)]
    sources = sentences(20, engine.vocabulary[0])
    search = Search(beam=3, n_best=3, extra_length=4)
    found = engine.search(sources, search, record=record)
    assert found == engine.search(sources, search)
    pairs = [(source, one.ids, one.maps) for source, of in zip(sources, found, strict=True) for one in of]
    forced = dict(engine.cross_maps([pair[:2] for pair in pairs]))
    for i, (source, ids, maps) in enumerate(pairs):
        assert maps.shape == (2, len(ids) + 1, len(source) + 1)
        for head, weights in zip(record, maps, strict=True):
            np.testing.assert_allclose(weights, select_head(forced[i], head), atol=1e-5)


@pytest.mark.parametrize("quantize", [False, True])
def test_the_same_bits_in_any_batch_and_with_any_threads(quantize: bool, tmp_path: Path) -> None:
    directory = write_random(tmp_path / "m", PAPER, 137)
    engine, team = load_native(directory, 1, quantize), load_native(directory, 3, quantize)
    pairs = random_pairs(engine, 12)
    alone = [engine.log_probabilities([pair])[0] for pair in pairs]
    assert engine.log_probabilities(pairs, 5) == alone
    assert team.log_probabilities(pairs) == alone
    assert team.log_probabilities(pairs[:1]) == alone[:1]
    maps = [next(engine.cross_maps([pair]))[1] for pair in pairs]
    for i, weights in team.cross_maps(pairs):
        assert weights.tobytes() == maps[i].tobytes()
    record = [RecordedHead(0, 0)]
    sources = [source for source, _ in pairs]
    together = team.search(sources, Search(beam=2), record=record)
    for source, (best, *_) in zip(sources, together, strict=True):
        assert engine.search([source], Search(beam=2), record=record)[0][0].maps.tobytes() == best.maps.tobytes()


def test_invalid_pairs_never_reach_c(tmp_path: Path) -> None:
    engine = load_native(write_random(tmp_path / "m", PAPER, 137))
    for pair in (([137], [5]), ([5], [137]), ([-1], [5]), ([5], [-1])):
        with raises(ShapeError, "unknown_id"):
            engine.log_probabilities([pair])
        with raises(ShapeError, "unknown_id"):
            next(engine.cross_maps([pair]))
        with raises(ShapeError, "unknown_id"):
            engine.attention_maps(*pair)


def test_weights_that_are_not_finite(tmp_path: Path) -> None:
    engine = load_native(write_with_nan(tmp_path / "m", PAPER, 137))
    with raises(SearchError, "not_finite"):
        engine.log_probabilities([([5, 6], [7])])
