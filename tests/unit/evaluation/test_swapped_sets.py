"""Swapped test sets are detected by the model's languages."""

from __future__ import annotations

from pathlib import Path

import pytest

import dragoman
from dragoman.demo.corpus.sample import pairs
from dragoman.errors import DragomanWarning
from dragoman.evaluation.swapped_sets import swapped_sets_warning
from dragoman.evaluation.test_sets import EvaluationSet
from dragoman.modeldir.info import ModelInfo
from tiny_model import write_tiny_model

PAIRS = list(pairs(30, split="test"))
ENGLISH, GERMAN = ([pair[side] for pair in PAIRS] for side in (0, 1))
RIGHT, SWAPPED = EvaluationSet("right", GERMAN, ENGLISH), EvaluationSet("wrong", ENGLISH, GERMAN)


def test_the_model_tells_the_languages() -> None:
    model = ModelInfo(300, ("en",), ("de",))
    assert swapped_sets_warning([RIGHT], model) is None
    warning = swapped_sets_warning([RIGHT, SWAPPED], model)
    assert warning is not None and warning.startswith("wrong: ") and "English to German" in warning


def test_one_of_several_target_languages() -> None:
    model = ModelInfo(300, ("en",), ("de", "fr"))
    assert swapped_sets_warning([SWAPPED], model) is None  # into which, nobody says
    assert swapped_sets_warning([EvaluationSet("x", ENGLISH, GERMAN, to="de")], model) is not None


def test_unknown_languages_and_missing_sources() -> None:
    assert swapped_sets_warning([SWAPPED], ModelInfo(300)) is None
    assert swapped_sets_warning([EvaluationSet("x", ENGLISH)], ModelInfo(300, ("en",), ("de",))) is None


def test_evaluating_warns_once(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    model = write_tiny_model(tmp_path / "m", languages=(("en",), ("de",)))
    for name, lines in (("t.en", ENGLISH), ("t.de", GERMAN)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    settings = {"beam": 1, "device": "cpu", "metrics": ["chrF"]}
    dragoman.evaluate(model, source=tmp_path / "t.en", reference=tmp_path / "t.de", **settings)
    assert not [warning for warning in recwarn if warning.category is DragomanWarning]
    dragoman.evaluate(model, source=tmp_path / "t.de", reference=tmp_path / "t.en", **settings)
    (warning,) = (warning for warning in recwarn if warning.category is DragomanWarning)
    assert "look swapped" in str(warning.message)
