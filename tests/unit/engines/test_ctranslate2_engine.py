"""CTranslate2 with our weights: the same model, and nearly the same search."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from dragoman import Translator
from dragoman.config import ModelRecipe
from dragoman.engines.ctranslate2 import CTranslate2Engine
from dragoman.engines.ctranslate2_conversion import to_ctranslate2, unsupported_by_ctranslate2
from dragoman.engines.torch import TorchEngine
from dragoman.errors import DragomanError, SearchError
from dragoman.native.cache import CacheError
from dragoman.search.types import Sampling, Search
from raising import raises
from random_models import PAPER, sentences, write_random
from tiny_model import write_tiny_model

pytest.importorskip("ctranslate2")

BIASED = ModelRecipe(
    d_model=40, n_heads=5, d_ff=72, encoder_layers=1, decoder_layers=2, activation="gelu", attention_bias=True,
    positions="learned", max_positions=64, norm_order="pre", tie="none",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CACHE", str(tmp_path / "cache"))


IMPORTED = replace(PAPER, output_bias=True, norm_epsilon=0.05)


@pytest.mark.parametrize(
    "recipe, vocabulary",
    [(PAPER, 137), (BIASED, (90, 151)), (IMPORTED, 137)],
    ids=["paper", "biased", "output bias, other epsilon"],
)
def test_greedy_agrees_with_the_reference(recipe: ModelRecipe, vocabulary: int, tmp_path: Path) -> None:
    directory = write_random(tmp_path / "m", recipe, vocabulary)
    engine = CTranslate2Engine.load(directory, 1, quantize=False)
    assert engine is not None
    sources = [source for source in sentences(40, 90) if source]  # nothing is nothing to CTranslate2
    search = Search(beam=1, extra_length=3)  # limits that differ within the batch
    for a, b in zip(TorchEngine.load(directory).search(sources, search), engine.search(sources, search), strict=True):
        assert a[0].ids == b[0].ids and a[0].truncated == b[0].truncated
        if not a[0].truncated:
            assert b[0].score > a[0].score - 1e-3  # what is forbidden is shared out there, which can only raise it
            assert recipe is not PAPER or b[0].score == pytest.approx(a[0].score, abs=0.02)


@pytest.mark.parametrize("beam", [1, 3])
def test_finished_hypotheses_have_the_scores_of_the_reference(beam: int, tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "m", seed=2, noise=0.1)  # which ends some of its translations
    texts = ["the old box", "seven", "nine mornings", "der alte Kasten", "Good morning, seven boxes!"]
    engines = [Translator.load(model, device="cpu", engine=e, precision="float32") for e in ("torch", "ctranslate2")]
    ours, theirs = (engine.translate(texts, beam=beam, extra_length=30) for engine in engines)
    finished = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.tokens == b.tokens and not a.truncated]
    assert finished
    for a, b in finished:  # what is forbidden is shared out there
        assert (b.score, b.log_probability) == pytest.approx((a.score, a.log_probability), abs=0.1)


@pytest.mark.parametrize("beam", [1, 3])
def test_truncated_hypotheses_have_the_scores_of_the_reference(beam: int, tmp_path: Path) -> None:
    directory = write_random(tmp_path / "m", PAPER, 137)
    engine, reference = CTranslate2Engine.load(directory, 1, quantize=False), TorchEngine.load(directory)
    assert engine is not None
    sources = [source for source in sentences(20, 90) if source]
    search = Search(beam=beam, n_best=beam, max_length=5)
    same = 0
    for ours, theirs in zip(reference.search(sources, search), engine.search(sources, search), strict=True):
        scores = {tuple(h.ids): (h.score, h.log_probability) for h in ours if h.truncated}
        for h in theirs:
            if h.truncated and tuple(h.ids) in scores:
                same += 1
                assert (h.score, h.log_probability) == pytest.approx(scores[tuple(h.ids)], abs=2e-3)
    assert same >= 10


def test_a_hypothesis_as_long_as_its_own_limit_is_truncated_in_a_mixed_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = CTranslate2Engine.load(write_random(tmp_path / "m", PAPER, 137), 1, quantize=False)
    assert engine is not None
    search = Search(beam=1, extra_length=2)
    result = SimpleNamespace(hypotheses=[["7", "8", "9"]], scores=[-4.0])  # ended by itself, at the limit of [5]
    longer = SimpleNamespace(hypotheses=[["7"]], scores=[-1.0])
    monkeypatch.setattr(engine, "translator", SimpleNamespace(translate_batch=lambda *_, **__: [result, longer]))
    found = engine.search([[5], [5, 6, 7, 8]], search)
    assert [(best[0].ids, best[0].log_probability, best[0].truncated) for best in found] == [
        ([7, 8, 9], -4.0, True),
        ([7], -1.0, False),
    ]


def test_beams_are_ranked_by_our_rule(tmp_path: Path) -> None:
    engine = CTranslate2Engine.load(write_random(tmp_path / "m", PAPER, 137), 1, quantize=False)
    assert engine is not None
    search = Search(beam=4, n_best=3, max_length=9)
    for best in engine.search(sentences(12, 137), search):
        assert len(best) == 3
        assert [h.score for h in best] == sorted((h.score for h in best), reverse=True)
        for h in best:
            assert h.score == pytest.approx(h.log_probability / search.normalizer(len(h.ids) + 1))


def test_converted_once_and_int8_by_default(tmp_path: Path) -> None:
    directory = write_random(tmp_path / "m", PAPER, 137)
    for _ in range(2):
        engine = CTranslate2Engine.load(directory)
        assert engine is not None and engine.translator.compute_type.startswith("int8")
    assert len(list((tmp_path / "cache" / "ctranslate2").iterdir())) == 1


def test_a_damaged_conversion_is_made_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = write_random(tmp_path / "m", PAPER, 137)
    search, sources = Search(beam=1, max_length=6), [[5, 6], [7]]
    engine = CTranslate2Engine.load(directory, 1)
    assert engine is not None
    expected = engine.search(sources, search)
    (place,) = (tmp_path / "cache" / "ctranslate2").iterdir()
    for file in sorted((place / "model").iterdir()):
        whole = file.read_bytes()
        middle = len(whole) // 2
        for damaged in (whole[:-3], whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :], None):
            file.unlink()
            if damaged is not None:
                file.write_bytes(damaged)
            caplog.clear()
            engine = CTranslate2Engine.load(directory, 1)
            assert engine is not None and engine.search(sources, search) == expected
            assert "converting the model again" in caplog.text and file.read_bytes() == whole


@pytest.mark.parametrize("which", ["cache", "directory", "file", "link"])
def test_a_conversion_that_others_could_have_written_is_not_loaded(tmp_path: Path, which: str) -> None:
    directory = write_random(tmp_path / "m", PAPER, 137)
    CTranslate2Engine.load(directory, 1)
    (place,) = (tmp_path / "cache" / "ctranslate2").iterdir()
    weights = place / "model" / "model.bin"
    if which == "link":
        weights.rename(tmp_path / "elsewhere")
        weights.symlink_to(tmp_path / "elsewhere")
    else:
        {"cache": tmp_path / "cache", "directory": place, "file": weights}[which].chmod(0o777)
    with pytest.raises(CacheError, match="DRAGOMAN_CACHE"):
        CTranslate2Engine.load(directory, 1)


def test_what_it_cannot_do(tmp_path: Path) -> None:
    engine = CTranslate2Engine.load(write_random(tmp_path / "m", PAPER, 137))
    assert engine is not None and engine.search([], Search()) == []
    with raises(SearchError, "unsupported_by_engine", "a prefix"):
        engine.search([[5]], Search(), [[5]])
    for search in (Search(no_repeat=2), Search(sampling=Sampling())):
        with raises(SearchError, "unsupported_by_engine"):
            engine.search([[5]], search)
    narrow = ModelRecipe(d_model=16, n_heads=2, d_k=3, d_v=8, d_ff=8, encoder_layers=1, decoder_layers=1)
    directory = write_random(tmp_path / "narrow", narrow, 30)
    assert unsupported_by_ctranslate2(narrow) and CTranslate2Engine.load(directory) is None
    with raises(DragomanError, "unsupported_model", "heads"):
        to_ctranslate2(directory, tmp_path / "out")


def test_what_ctranslate2_itself_refuses_is_told_with_what_came(tmp_path: Path) -> None:
    engine = CTranslate2Engine.load(write_random(tmp_path / "m", PAPER, 137), 1)
    assert engine is not None
    with raises(SearchError, "engine_failed", "2 sentences", "4,100 tokens", "No position", "4096"):
        engine.search([[5, 6], [7] * 4100], Search(beam=1, max_length=6))  # its table of positions ends before
    assert engine.search([[5, 6]], Search(beam=1, max_length=6))[0]  # and it still works
