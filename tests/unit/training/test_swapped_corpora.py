"""Swapped files are detected by their languages before training."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import dragoman
from dragoman.data.corpora.corpus import Corpus
from dragoman.data.swapped_languages import detect_pair, swapped_warning
from dragoman.demo.corpus.sample import pairs
from dragoman.progress import SilentReporter
from dragoman.training.swapped_corpora import swapped_corpora_warning
from tiny_model import write_tiny_model

PAIRS = list(pairs(300, split="train"))
ENGLISH, GERMAN = ([pair[side] for pair in PAIRS] for side in (0, 1))


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def right(tmp_path: Path) -> Corpus:
    return Corpus(write(tmp_path / "t.en", ENGLISH), write(tmp_path / "t.de", GERMAN))


@pytest.fixture
def swapped(tmp_path: Path) -> Corpus:
    """Files whose names have the languages in the wrong order."""
    return Corpus(write(tmp_path / "s.en", GERMAN), write(tmp_path / "s.de", ENGLISH))


def test_both_sides_are_compared_with_the_languages() -> None:
    expected = ("en", "de")
    assert swapped_warning("x", ENGLISH, GERMAN, expected) is None
    assert "look swapped" in (swapped_warning("x", GERMAN, ENGLISH, expected) or "")
    assert "the source looks like German" in (swapped_warning("x", GERMAN, GERMAN, expected) or "")
    assert swapped_warning("x", ENGLISH, ENGLISH, expected) is None  # the source is right


def test_what_cannot_be_told_is_not_warned_about() -> None:
    assert swapped_warning("x", GERMAN, ENGLISH, None) is None
    assert swapped_warning("x", GERMAN, ENGLISH, ("en", "gsw")) is None  # not known to the detector
    assert swapped_warning("x", GERMAN, ENGLISH, ("zh-Hans", "zh-Hant")) is None  # one language to it
    assert swapped_warning("x", ["ja", "nein", "gut", "Haus", "12"] * 40, ["yes"] * 200, ("en", "de")) is None
    assert swapped_warning("x", GERMAN[:3], ENGLISH[:3], ("en", "de")) is None
    assert swapped_warning("x", [], [], ("en", "de")) is None


def test_short_lines_before_long_ones_do_not_hide_it(tmp_path: Path) -> None:
    source, target = ["Ja."] * 250 + GERMAN, ["Yes."] * 250 + ENGLISH
    corpus = Corpus(write(tmp_path / "t.en", source), write(tmp_path / "t.de", target))
    assert "look swapped" in (swapped_corpora_warning([corpus], [], None) or "")


def test_names_of_files_and_keys_tell_the_languages(tmp_path: Path, right: Corpus, swapped: Corpus) -> None:
    assert swapped_corpora_warning([right], [right], None) is None
    warning = swapped_corpora_warning([right, swapped], [], None)
    assert warning is not None and warning.startswith("s.en + s.de: ")
    lines = [f'{{"en": "{g}", "de": "{e}"}}' for e, g in PAIRS if '"' not in e + g]
    json_lines = Corpus(write(tmp_path / "c.jsonl", lines), None, "jsonl", "en", "de")
    assert "c.jsonl" in (swapped_corpora_warning([json_lines], [], None) or "")


def test_a_validation_set_is_compared_with_the_training_data(tmp_path: Path, right: Corpus) -> None:
    assert right.target is not None
    back = Corpus(right.target, right.source)
    assert "t.de + t.en" in (swapped_corpora_warning([right], [back], None) or "")
    unnamed = Corpus(write(tmp_path / "a.txt", ENGLISH), write(tmp_path / "b.txt", GERMAN))
    assert detect_pair(ENGLISH, GERMAN) == ("en", "de")
    assert unnamed.target is not None
    assert swapped_corpora_warning([unnamed], [unnamed], None) is None
    assert "b.txt + a.txt" in (swapped_corpora_warning([unnamed], [Corpus(unnamed.target, unnamed.source)], None) or "")


def test_the_model_to_start_from_tells_the_languages(tmp_path: Path, right: Corpus) -> None:
    base = write_tiny_model(tmp_path / "base", languages=(("de",), ("en",)))
    assert "expected German to English" in (swapped_corpora_warning([right], [], base) or "")


def test_it_is_silent_without_the_detector(swapped: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "py3langid", None)
    assert swapped_corpora_warning([swapped], [], None) is None
    assert swapped_warning("x", GERMAN, ENGLISH, ("en", "de")) is None


def test_data_that_cannot_be_read_are_left_to_the_preparation(tmp_path: Path) -> None:
    missing = Corpus(tmp_path / "no.en", tmp_path / "no.de")
    assert swapped_corpora_warning([missing], [], None) is None


class Notes(SilentReporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_training_warns_once(tmp_path: Path, swapped: Corpus) -> None:
    notes = Notes()
    changes = ["model.d_model=8", "model.n_heads=2", "model.d_ff=8", "model.encoder_layers=1", "model.decoder_layers=1"]
    changes += ["train.steps=1", "text.vocabulary_size=320"]
    dragoman.train(corpora=[swapped], out=tmp_path / "out", changes=changes, device="cpu", reporter=notes)
    assert [note for note in notes.notes if "swapped" in note] == [
        "s.en + s.de: source and target look swapped; expected English to German: check the order of the files"
    ]
