"""The C engine against the PyTorch reference; bit-identical in any batch."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dragoman.config import ModelRecipe
from dragoman.engines import native_model
from dragoman.engines.native import NativeEngine
from dragoman.engines.native_layout import unsupported_by_native
from dragoman.engines.torch import TorchEngine
from dragoman.errors import SearchError, ShapeError
from dragoman.search.types import Hypothesis, Mean, RecordedHead, Sampling, Search
from native_engines import load_ensembles, load_native
from raising import raises
from random_models import PAPER, TOLD, sentences, write_random, write_with_nan

SEARCHES = [
    Search(beam=1, max_length=17),
    Search(beam=4, n_best=3, extra_length=4),
    Search(beam=5, n_best=5, extra_length=3, length_penalty=0.0, min_length=2),
    Search(beam=3, max_length=12, no_repeat=2, length_penalty=-0.7),
    Search(beam=7, max_length=9, no_repeat=1, min_length=9, length_penalty=1.3),
]


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_random(tmp_path_factory.mktemp("models") / "paper", PAPER, 137)


def same(a: list[list[Hypothesis]], b: list[list[Hypothesis]], tolerance: float) -> float:
    """The share of sentences with the same hypotheses in the same order; those must have like scores."""
    alike = 0
    for left, right in zip(a, b, strict=True):
        if [h.ids for h in left] == [h.ids for h in right]:
            alike += 1
            for x, y in zip(left, right, strict=True):
                assert x.score == pytest.approx(y.score, abs=tolerance)
                assert x.log_probability == pytest.approx(y.log_probability, abs=10 * tolerance)
                assert x.truncated == y.truncated
    return alike / len(a)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_float_agrees_with_the_reference(model: Path, search: Search) -> None:
    reference, engine = TorchEngine.load(model), load_native(model)
    sources = sentences(40, engine.vocabulary[0])
    assert same(reference.search(sources, search), engine.search(sources, search), 1e-4) == 1.0


def test_prefixes_begin_the_translation_and_count(model: Path) -> None:
    reference, engine = TorchEngine.load(model), load_native(model)
    of_sources, of_targets = engine.vocabulary
    sources, prefixes = sentences(20, of_sources), sentences(20, of_targets, 8, seed=9)
    search = Search(beam=4, n_best=4, max_length=6, no_repeat=3, min_length=2)
    found = engine.search(sources, search, prefixes)
    assert all(h.ids[: len(p)] == p for of, p in zip(found, prefixes, strict=True) for h in of)
    assert same(reference.search(sources, search, prefixes), found, 1e-4) == 1.0


@pytest.mark.parametrize(
    "sampling",
    [Sampling(seed=3), Sampling(temperature=0.7, top_k=5), Sampling(top_p=0.8), Sampling(1.5, top_k=20, top_p=0.9)],
    ids=str,
)
def test_samples_agree_with_the_reference(model: Path, sampling: Sampling) -> None:
    reference, engine = TorchEngine.load(model), load_native(model, threads=2)
    sources = sentences(30, engine.vocabulary[0])
    search = Search(beam=3, n_best=3, extra_length=4, min_length=1, no_repeat=2, sampling=sampling)
    found = engine.search(sources, search)
    assert same(reference.search(sources, search), found, 1e-4) > 0.95  # a draw may fall between two roundings
    assert [engine.search([source], search)[0] for source in sources[:5]] == found[:5]


@pytest.mark.parametrize("mean", ["probabilities", "log-probabilities"])
def test_ensembles_agree_with_the_reference(mean: Mean, tmp_path: Path) -> None:
    larger = replace(PAPER, d_model=64, n_heads=4, decoder_layers=1, positions="rotary")
    places = [write_random(tmp_path / str(i), recipe, 137, i) for i, recipe in enumerate((PAPER, larger, PAPER))]
    reference, engine = load_ensembles(places, mean)
    sources, prefixes = sentences(30, 137), sentences(30, 137, 3, seed=2)
    for search, begins in (
        (Search(beam=1, extra_length=5), None),
        (Search(beam=4, n_best=3, extra_length=4, min_length=2), None),
        (Search(beam=3, extra_length=5, no_repeat=2), prefixes),
    ):
        found = engine.search(sources, search, begins)
        assert same(reference.search(sources, search, begins), found, 1e-4) == 1.0
        alone = [engine.search([sources[i]], search, begins and [begins[i]])[0] for i in range(5)]
        assert alone == found[:5]
    sampled = Search(beam=2, n_best=2, extra_length=5, sampling=Sampling(top_p=0.9))
    assert same(reference.search(sources, sampled), engine.search(sources, sampled), 1e-4) > 0.9


def test_ensembles_need_one_vocabulary(tmp_path: Path) -> None:
    places = [write_random(tmp_path / str(size), PAPER, size) for size in (137, 138)]
    load_native(places[0])
    with raises(SearchError, "vocabulary_mismatch", "138"):
        NativeEngine.load(places[0], 1, False, places[1:])


def test_eight_bits_are_close(model: Path) -> None:
    """A forced path: the same tokens, so that the log-probabilities can be compared."""
    exact, engine = load_native(model), load_native(model, quantize=True)
    sources = sentences(30, engine.vocabulary[0])
    paths = [best[0].ids for best in exact.search(sources, Search(beam=1, min_length=1, max_length=8))]
    ends_there = Search(beam=1, max_length=1)  # a prefix raises the limit to its own length
    a = [best[0].log_probability for best in exact.search(sources, ends_there, paths)]
    b = [best[0].log_probability for best in engine.search(sources, ends_there, paths)]
    off = [abs(x - y) / (len(path) + 1) for x, y, path in zip(a, b, paths, strict=True)]
    assert max(off) < 0.15 and any(off)


@pytest.mark.parametrize("quantize", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("beam", [1, 4])
def test_the_same_bits_in_any_company(model: Path, quantize: bool, beam: int) -> None:
    alone, many = load_native(model, 1, quantize), load_native(model, 3, quantize)
    sources = sentences(66, alone.vocabulary[0])
    search = Search(beam=beam, n_best=beam, extra_length=5)
    expected = [alone.search([source], search)[0] for source in sources]
    shuffled = list(range(len(sources)))
    random.Random(1).shuffle(shuffled)
    for engine, sizes in ((alone, (7, 64)), (many, (1, 7, 64))):
        for size in sizes:
            for start in range(0, len(sources), size):
                here = shuffled[start : start + size]
                assert engine.search([sources[i] for i in here], search) == [expected[i] for i in here]


def test_callers_at_once(paper: Path) -> None:
    engine = load_native(paper, 2, quantize=True)
    sources, search = sentences(24, 137), Search(beam=2, extra_length=5)
    expected = engine.search(sources, search)
    with ThreadPoolExecutor(5) as pool:
        alone = pool.map(lambda source: engine.search([source], search)[0], sources)
        together = pool.map(lambda _: engine.search(sources, search), range(5))
        assert list(alone) == expected and all(found == expected for found in together)
    assert engine.busy == 0 and len(engine.free) <= 10


@pytest.mark.parametrize(
    ("n_batches", "busy", "n_threads"), [(2, 0, 2), (3, 0, 3), (3, 1, 2), (2, 1, 2), (3, 2, 1), (20, 2, 1), (20, 3, 1)]
)
def test_batches_leave_busy_threads_alone(paper: Path, n_batches: int, busy: int, n_threads: int) -> None:
    engine, started = load_native(paper, 3), set[int]()
    together = threading.Barrier(n_threads)
    engine.busy = busy

    def run(workers: object, batch: int, team: int) -> None:
        if threading.get_ident() not in started:
            started.add(threading.get_ident())
            together.wait(60)
        time.sleep(0.01)  # one more thread would take some of the batches

    engine.run_batches(range(n_batches), run)
    assert len(started) == n_threads and engine.busy == busy


def test_blocks_of_documents_have_a_thread_each(paper: Path) -> None:
    """Two callers on two threads: neither starts a helper, however many batches it has."""
    engine, both, started = load_native(paper, 2), threading.Barrier(2), set[int]()

    def run(workers: object, batch: int, team: int) -> None:
        started.add(threading.get_ident())
        both.wait(60)  # each batch of the one runs while one of the other does

    with ThreadPoolExecutor(2) as callers:
        engine.busy = 1  # the other has begun
        one = callers.submit(engine.run_batches, range(9), run)
        while not started:
            time.sleep(0.001)
        engine.busy = 1
        other = callers.submit(engine.run_batches, range(9), run)
        one.result(60), other.result(60)
    assert len(started) == 2


def test_a_call_takes_the_threads_of_one_that_ends(paper: Path) -> None:
    engine, started = load_native(paper, 3), set[int]()
    engine.busy = 3  # another call
    together = threading.Barrier(3)

    def run(workers: object, batch: int, team: int) -> None:
        started.add(threading.get_ident())
        if batch == 2:
            engine.busy -= 3  # which ends
        if batch > 2:
            together.wait(60)

    engine.run_batches(range(6), run)
    assert len(started) == 3 and engine.busy == 0


def test_helpers_leave_when_another_call_begins(paper: Path) -> None:
    engine, at = load_native(paper, 2), list[int]()
    together, caller = threading.Barrier(2), threading.get_ident()

    def run(workers: object, batch: int, team: int) -> None:
        at.append(threading.get_ident())
        if batch == 1:
            engine.busy += 1
        if batch < 2:
            together.wait(60)

    engine.run_batches(range(9), run)
    assert len({*at[:2]}) == 2 and {*at[2:]} == {caller} and engine.busy == 1


@pytest.mark.parametrize(
    ("n", "threads", "beam", "sizes"),
    [
        (34, 2, 4, [9, 9, 9, 7]),
        (32, 2, 4, [16, 16]),
        (33, 1, 4, [11, 11, 11]),
        (3, 2, 4, [2, 1]),
        (1, 2, 4, [1]),
        (10, 3, 64, [1] * 10),
        (130, 8, 4, [9] * 14 + [4]),
    ],
)
def test_batches_are_equal_shares_for_all_threads(
    paper: Path, n: int, threads: int, beam: int, sizes: list[int]
) -> None:
    engine = load_native(paper, threads)
    engine.max_rows = 64
    assert [*map(len, engine._batches([5] * n, Search(beam=beam)))] == sizes


@pytest.mark.parametrize("recipe", [PAPER, *TOLD.values()], ids=["paper", *TOLD])
def test_long_sentences_agree(recipe: ModelRecipe, tmp_path: Path) -> None:
    """More positions than are scored at once, and larger scores appearing later; also in recorded attention."""
    directory = write_random(tmp_path / "m", recipe, 137)
    reference, engine = TorchEngine.load(directory), load_native(directory)
    sources = [[*range(4, 137)] * 2, [*range(136, 4, -1)]]
    search, last = Search(beam=2, max_length=150, min_length=150), recipe.decoder_layers - 1
    found = engine.search(sources, search, record=[RecordedHead(0, 0), RecordedHead(last, None)])
    assert same(reference.search(sources, search), found, 1e-3) == 1.0
    pairs = [(source, of[0].ids) for source, of in zip(sources, found, strict=True)]
    for i, weights in reference.cross_maps(pairs):
        for ours, theirs in zip(found[i][0].maps, (weights[0, 0], weights[last].mean(0)), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
    maps, expected = (one.attention_maps(*pairs[1]) for one in (engine, reference))
    for kind, weights in expected.items():
        np.testing.assert_allclose(maps[kind], weights, rtol=0, atol=1e-5)


@pytest.mark.parametrize("recipe", TOLD.values(), ids=TOLD)
def test_longer_and_longer_sentences(recipe: ModelRecipe, tmp_path: Path) -> None:
    """What an engine knows of positions from a short sentence does for its part of a long one, and the reverse."""
    directory = write_random(tmp_path / "m", recipe, 137)
    reference, engine, search = TorchEngine.load(directory), load_native(directory, 2), Search(beam=3, extra_length=9)
    for length in (5, 130, 70, 260, 1):
        sources = [[4 + (7 * i + length) % 133 for i in range(length)]]
        assert same(reference.search(sources, search), engine.search(sources, search), 1e-3) == 1.0


@pytest.mark.parametrize("positions", sorted({recipe.positions for recipe in TOLD.values()}))
def test_the_order_of_the_source_counts(positions: str, tmp_path: Path) -> None:
    """Without positions the encoder reads a bag of words, and two orders of them have the same probability."""
    told = next(recipe for recipe in TOLD.values() if recipe.positions == positions)
    left, right = [5, 6, 7, 8, 9], [9, 7, 5, 8, 6]
    for recipe, apart in ((told, True), (replace(told, positions="none", max_distance=16), False)):
        engine = load_native(write_random(tmp_path / recipe.positions, recipe, 137))
        found = engine.search([left, right], Search(beam=1, max_length=1), [[11, 12, 13]] * 2)
        a, b = (best[0].log_probability for best in found)
        assert (abs(a - b) > 1e-2) == apart


def test_what_it_cannot_do(paper: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = load_native(paper)
    with raises(SearchError, "unsupported_by_engine", "'torch'"):
        engine.search([[5]], Search(beam=65))
    with raises(ShapeError, "unknown_id", "137"):
        engine.search([[5], [137]], Search())
    assert engine.search([], Search()) == []
    assert unsupported_by_native(ModelRecipe(attention="additive")) == "model.attention='additive'"
    assert unsupported_by_native(ModelRecipe(norm="batch")) == "model.norm='batch'"
    for positions in ("none", "rotary", "alibi", "relative"):
        assert unsupported_by_native(ModelRecipe(d_model=8, n_heads=2, norm_order="pre", positions=positions)) is None
    for what, other in (("attention", "additive"), ("pattern", "local"), ("pattern", "sparse")):
        assert unsupported_by_native(ModelRecipe(positions="rotary", **{what: other})) == f"model.{what}={other!r}"
    for positions in ("alibi", "relative"):
        assert unsupported_by_native(ModelRecipe(positions=positions, pattern="local")) == "model.pattern='local'"
    assert unsupported_by_native(ModelRecipe(positions="syntax")) == "model.positions='syntax'"
    assert unsupported_by_native(ModelRecipe(pattern="low_rank")) == "model.pattern='low_rank'"
    assert unsupported_by_native(ModelRecipe(architecture="recurrent")) == "model.architecture='recurrent'"
    additive = ModelRecipe(d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1, attention="additive")
    assert NativeEngine.load(write_random(tmp_path / "additive", additive, 30)) is None
    monkeypatch.setattr(native_model, "library", lambda name, structures: None)
    assert NativeEngine.load(paper) is None


def test_learned_positions_end(tmp_path: Path) -> None:
    sizes = {"d_model": 16, "n_heads": 2, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1}
    recipe = ModelRecipe(**sizes, positions="learned", max_positions=9)
    engine = load_native(write_random(tmp_path / "m", recipe, 30))
    assert len(engine.search([[5] * 8], Search(max_length=8))) == 1
    with raises(ShapeError, "text_too_long", "9"):
        engine.search([[5] * 9], Search(max_length=8))
    with raises(ShapeError, "text_too_long", "9"):
        engine.search([[5]], Search(max_length=9))


def test_weights_that_are_no_numbers(tmp_path: Path) -> None:
    directory = write_with_nan(tmp_path / "m", PAPER, 137)
    for quantize in (False, True):
        with raises(SearchError, "not_finite"):
            load_native(directory, quantize=quantize).search([[5, 6]], Search(max_length=3))
        with raises(SearchError, "not_finite"):
            load_native(directory, quantize=quantize).search([[5, 6]], Search(max_length=3, sampling=Sampling(top_k=3)))
