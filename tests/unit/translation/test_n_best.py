"""n-best lists: distinct texts, best first, filled up by a wider beam."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman import Translator
from dragoman.engines.specs import TORCH
from dragoman.search.types import Hypothesis, Sampling, Search
from tiny_model import write_tiny_model


class Scripted:
    """An engine that finds the first of given hypotheses, as many as the beam is wide."""

    name, batch, capabilities, precision, threads = "torch", 64, TORCH, "float32", 1

    def __init__(self, hypotheses: Sequence[Hypothesis]) -> None:
        self.hypotheses, self.beams = hypotheses, list[int]()

    def search(self, sources: Sequence[Sequence[int]], search: Search, *_: object) -> list[list[Hypothesis]]:
        self.beams.append(search.beam)
        best = sorted(self.hypotheses[: search.beam], key=lambda one: -one.score)
        return [list(best[: search.n_best]) for _ in sources]


@pytest.fixture
def translator(tmp_path: Path) -> Translator:
    return Translator.load(write_tiny_model(tmp_path / "model"), device="cpu", engine="torch")


def scripted(translator: Translator, texts: Sequence[str]) -> Scripted:
    """Hypotheses with falling scores; a star before a text spells it with one more token."""
    (space,) = translator.target.to_ids(["▁"])
    ids = [[*([space] if text[0] == "*" else []), *translator.target.encode(text.removeprefix("*"))] for text in texts]
    engine = Scripted([Hypothesis(one, -0.5 - rank, -1.0 - rank) for rank, one in enumerate(ids)])
    translator.engines.loaded["torch"] = engine
    return engine


def found(translator: Translator, **options: object) -> list[str]:
    best = translator.translate("the old box", **options)  # type: ignore[call-overload]
    assert [best.score, *(one.score for one in best.alternatives)] == sorted(
        [best.score, *(one.score for one in best.alternatives)], reverse=True
    )
    return [best.text, *(one.text for one in best.alternatives)]


def test_a_text_that_is_spelled_twice_comes_once_with_the_better_score(translator: Translator) -> None:
    engine = scripted(translator, ["Kasten", "*Kasten", "Flur", "alte", "sieben", "Haus"])
    assert found(translator, n_best=3, beam=5) == ["Kasten", "Flur", "alte"]
    assert translator.translate("the old box", n_best=3, beam=5).score == -0.5
    assert set(engine.beams) == {5}  # enough without a wider beam


def test_the_list_is_filled_up_by_a_wider_beam(translator: Translator) -> None:
    engine = scripted(translator, ["Kasten", "*Kasten", "Flur", "*Flur", "alte", "sieben"])
    assert found(translator, n_best=4) == ["Kasten", "Flur", "alte", "sieben"]
    assert engine.beams == [4, 8]


def test_what_a_model_cannot_say_is_not_made_up(translator: Translator) -> None:
    engine = scripted(translator, ["Kasten", "*Kasten"])
    assert found(translator, n_best=4) == ["Kasten"]
    assert engine.beams == [4, 8, 16]


def test_one_best_and_samples_are_left_alone(translator: Translator) -> None:
    engine = scripted(translator, ["Kasten", "*Kasten", "Flur", "alte"])
    assert found(translator) == ["Kasten"]
    assert found(translator, n_best=2, sampling=Sampling()) == ["Kasten", "Kasten"]
    assert engine.beams == [4, 4]


def test_a_real_model_repeats_no_text(tmp_path: Path) -> None:
    for engine in ("native", "torch"):
        translator = Translator.load(write_tiny_model(tmp_path / engine), device="cpu", engine=engine)
        if translator.engines.get(engine) is None:
            continue
        for best in translator.translate(["the old box", "Good morning!", "seven boxes"], n_best=6, max_length=2):
            texts = [best.text, *(one.text for one in best.alternatives)]
            assert len(texts) == len(set(texts)) == 6
