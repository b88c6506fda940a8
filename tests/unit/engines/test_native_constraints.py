"""Lexical constraints in the C engine against the PyTorch search; bit-identical in any batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from dragoman.engines.torch import TorchEngine
from dragoman.errors import ShapeError
from dragoman.search.constraints.tables import ConstraintTables
from dragoman.search.types import Hypothesis, Mean, RecordedHead, Sampling, Search
from letters import Letters, random_letters, random_tables
from native_engines import load_ensembles, load_native
from raising import raises
from random_models import PAPER, RECIPES, sentences, write_random

SEARCHES = [
    Search(beam=1, extra_length=8),
    Search(beam=4, n_best=4, extra_length=5),
    Search(beam=5, n_best=2, max_length=9, min_length=3, no_repeat=2, length_penalty=0.0),
    Search(beam=3, max_length=2),  # too short for some phrases
]


def check_same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert [one.ids for one in ours] == [one.ids for one in theirs]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)
        assert [one.truncated for one in ours] == [one.truncated for one in theirs]


@pytest.fixture(scope="module", params=["paper", "alibi, many heads", "silu, no positions, target tied, output bias"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("models") / "m", *RECIPES[request.param])


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_constrained_searches_agree_with_the_reference(model: Path, search: Search) -> None:
    reference, engine, draw = TorchEngine.load(model), load_native(model, 2), Random(search.beam)
    letters = random_letters(engine.vocabulary[1], draw)
    sources, tables = sentences(24, engine.vocabulary[0]), random_tables(letters, 24, draw)
    found = engine.search(sources, search, constraints=tables)
    check_same(found, reference.search(sources, search, constraints=tables))
    assert found != engine.search(sources, search)
    alone = [engine.search([sources[i]], search, constraints=[tables[i]])[0] for i in range(6)]
    assert alone == found[:6]


def test_constraints_with_prefixes_and_recorded_attention(model: Path) -> None:
    reference, engine, draw = TorchEngine.load(model), load_native(model), Random(4)
    letters = random_letters(engine.vocabulary[1], draw)
    sources, prefixes = sentences(20, engine.vocabulary[0]), sentences(20, engine.vocabulary[1], 6, seed=9)
    search, tables = Search(beam=4, n_best=2, extra_length=6, no_repeat=3), random_tables(letters, 20, draw)
    found = engine.search(sources, search, prefixes, tables, record=[RecordedHead(0, 0)])
    check_same(found, reference.search(sources, search, prefixes, tables))
    pairs = [(source, one.ids) for source, of in zip(sources, found, strict=True) for one in of]
    maps = [one.maps[0] for of in found for one in of]
    for i, weights in engine.cross_maps(pairs):
        assert maps[i] == pytest.approx(weights[0, 0], abs=1e-5)


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
def test_constraints_of_ensembles(mean: Mean, tmp_path: Path) -> None:
    places = [write_random(tmp_path / str(i), replace(PAPER, decoder_layers=1 + i), 137, i) for i in range(2)]
    reference, engine = load_ensembles(places, mean)
    draw = Random(mean)
    sources, tables = sentences(30, 137), random_tables(random_letters(137, draw), 30, draw)
    search = Search(beam=4, n_best=3, extra_length=6)
    check_same(
        engine.search(sources, search, constraints=tables), reference.search(sources, search, constraints=tables)
    )


def test_samples_avoid_phrases(tmp_path: Path) -> None:
    place = write_random(tmp_path / "m", PAPER, 137)
    reference, engine = TorchEngine.load(place), load_native(place, 2)
    letters = random_letters(137, Random(1))
    tables: list[ConstraintTables | None] = [letters.plan((), ["a", "b", "bc", "你"]), None] * 10
    sources = sentences(20, 137)
    search = Search(beam=3, n_best=3, extra_length=6, sampling=Sampling(top_p=0.95))
    found = engine.search(sources, search, constraints=tables)
    check_same(found, reference.search(sources, search, constraints=tables))
    assert found != engine.search(sources, search)


def test_constraints_in_eight_bits_are_kept_in_any_batch(tmp_path: Path) -> None:
    engine, draw = load_native(write_random(tmp_path / "m", PAPER, 137), 3, quantize=True), Random(2)
    letters = random_letters(137, draw)
    sources, tables = sentences(30, 137), random_tables(letters, 30, draw)
    search = Search(beam=5, n_best=2, extra_length=20)
    found = engine.search(sources, search, constraints=tables)
    assert found == [engine.search([sources[i]], search, constraints=[tables[i]])[0] for i in range(30)]


def test_constraints_of_another_vocabulary_never_reach_c(tmp_path: Path) -> None:
    engine = load_native(write_random(tmp_path / "m", PAPER, 137))
    other = Letters("▁a", "a").plan(["a"])
    with raises(ShapeError, "vocabulary_mismatch", "137"):
        engine.search([[5]], Search(), constraints=[other])
    with raises(ShapeError, "count_mismatch"):
        engine.search([[5]], Search(), constraints=[None, None])
