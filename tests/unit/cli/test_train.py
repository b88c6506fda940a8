"""`dragoman train`, and errors before anything is written."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import dragoman.api.training
import dragoman.training.session
from command_line import leave
from dragoman.config import Recipe
from small_model import model_at
from tiny_run import TINY, write_corpus

SETTINGS = [word for change in (*TINY, "train.steps=2", "train.warmup_steps=1") for word in ("--set", change)]


def words(folder: Path, settings: list[str] = SETTINGS, pairs: int = 300) -> list[str]:
    corpus = write_corpus(folder, pairs)
    return ["train", "--source", str(corpus.source), "--target", str(corpus.target), *settings]


def test_a_directory_with_something_else_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*words(tmp_path), "--out", str(tmp_path / "out")]
    (tmp_path / "out" / "photos").mkdir(parents=True)
    (tmp_path / "out" / "photos" / "one.png").write_bytes(b"x")
    (tmp_path / "out" / "training").mkdir()  # not ours, whatever its name
    (tmp_path / "out" / "training" / "plan.txt").write_text("run")
    code, _, err = leave(capsys, *command)
    assert (code, "out contains photos/, training/" in err) == (2, True), err
    assert sorted(p.name for p in tmp_path.glob("out/**/*")) == ["one.png", "photos", "plan.txt", "training"]
    code, _, err = leave(capsys, *command[:-1], str(tmp_path / "numbers.en"))
    assert (code, "numbers.en is a file" in err) == (2, True), err
    model = model_at(tmp_path / "model")
    assert leave(capsys, *command[:-1], str(model / "model.json"))[0] == 2
    said = "is finished (training/"
    assert said in leave(capsys, *command[:-1], str(model))[2]


def test_a_directory_with_an_empty_log_is_begun_and_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    command = [*words(tmp_path), "--out", str(out)]
    out.mkdir()
    (out / "log.txt").touch()
    code, _, err = leave(capsys, *command[:-2], "--set", "train.steps=0", "--out", str(out))
    assert (code, list(out.iterdir())) == (2, [out / "log.txt"]), err
    code, _, err = leave(capsys, *command)
    assert code == 0, err
    (out / "log.txt").write_text("written meanwhile")
    (out / "manifest.json").unlink()
    code, _, err = leave(capsys, *command)
    assert (code, "out is finished" in err) == (0, True), err


def test_steps_alone_are_enough_and_only_what_is_chosen_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dragoman.training.session, "run_training", lambda *_, **__: None)
    monkeypatch.setattr(dragoman.api.training, "add_probes", lambda *_: None)
    asked = ["--set", "train.steps=10", "--set", "train.schedule=linear", "--set", "train.clip=0.5"]
    code, _, err = leave(capsys, *words(tmp_path, asked), "--out", str(tmp_path / "out"))
    assert (code, "train.warmup_steps=5: for this few steps" in err) == (0, True), err
    assert "train.clip" not in err and "train.schedule" not in err


def test_what_was_dropped_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dragoman.training.session, "run_training", lambda *_, **__: None)
    monkeypatch.setattr(dragoman.api.training, "add_probes", lambda *_: None)
    for side, text in (("en", "one\ntwo\n"), ("de", "eins\n\n")):
        (tmp_path / f"v.{side}").write_text(text)
    valid = ["--valid-source", str(tmp_path / "v.en"), "--valid-target", str(tmp_path / "v.de")]
    command = [*words(tmp_path), *valid, "--out", str(tmp_path / "out")]
    for side, text in (("en", "Berlin\ntwo\n"), ("de", "Berlin\n\n")):
        with (tmp_path / f"numbers.{side}").open("a") as corpus:
            corpus.write(text)
    code, _, err = leave(capsys, *command)
    told = next(line for line in err.splitlines() if "pairs read" in line)
    counts = [int(count) for count in re.findall(r"\b\d+\b", told.partition("; examples")[0])]
    assert (code, counts[0], sum(counts[1:])) == (0, 304, 304), told  # all that was read is accounted for
    for part in ("1 to validate with", " 1 empty,", " 1 copy,", " 1 empty (validation); examples are in"):
        assert part in told
    assert "pairs read" not in leave(capsys, *command)[2]  # prepared before


def test_without_a_validation_set_nothing_is_trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = leave(capsys, *words(tmp_path, pairs=19), "--out", str(tmp_path / "few"))
    assert (code, "there is no validation set: 17 pairs" in err) == (2, True), err
    (tmp_path / "v.en").write_text("one\n")
    (tmp_path / "v.de").write_text("eins " * 400 + "\n")
    valid = ["--valid-source", str(tmp_path / "v.en"), "--valid-target", str(tmp_path / "v.de")]
    code, _, err = leave(capsys, *words(tmp_path), *valid, "--out", str(tmp_path / "long"))
    assert (code, "data.max_tokens=256" in err) == (2, True)
    assert not list(tmp_path.glob("*/training/run.json"))


def test_from_a_model_come_its_sizes_and_its_tokenizers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = model_at(tmp_path / "model")
    begin, start = ["--set", "train.steps=2"], ["--from", str(model)]
    out = ["--out", str(tmp_path / "out")]
    code, _, err = leave(capsys, *words(tmp_path, begin), *start, *out, "--set", "model.dropout=0.4")
    assert (code, f"model and tokenizers: those of {model.name}\n" in err) == (0, True), err
    own, found = Recipe.load(model / "recipe.toml"), Recipe.load(tmp_path / "out" / "recipe.toml")
    assert (found.model, found.text) == (replace(own.model, dropout=0.4), own.text)
    for more, message in (
        ([*start, "--set", "text.shared=false"], "text.shared=False has no effect: --from keeps the tokenizers"),
        ([*start, "--set", "model.d_ff=11"], "inner.bias has shape (10,) there, but the recipe needs (11,)"),
        (["--from", str(tmp_path / "modle")], f"did you mean {model}?"),
        (["--from", str(model / "recipe.toml")], "recipe.toml is a file; a model is a directory"),
        (["--from", str(tmp_path)], f"is not a model: it has no recipe.toml; did you mean {model}?"),
    ):
        code, _, err = leave(capsys, *words(tmp_path, begin), "--out", str(tmp_path / "other"), *more)
        assert (code, message in err, "Traceback" in err) == (2, True, False), err
    code, _, err = leave(capsys, *words(tmp_path, begin), *out)
    assert code == 2 and "was started with --from; give it again to resume" in err, err
    assert leave(capsys, *words(tmp_path, [*begin, "--set", "model.preset=tiny"]), "--out", str(tmp_path / "n"))[0] == 0
    code, _, err = leave(capsys, *words(tmp_path, begin), *start, "--out", str(tmp_path / "n"))
    assert code == 2 and "was started without --from; leave it out to resume" in err, err


def test_other_data_are_taken_before_the_run_begins_and_refused_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*words(tmp_path), "--out", str(tmp_path / "out")]
    assert leave(capsys, *command, "--set", "data.valid_pairs=0")[0] == 2
    assert leave(capsys, *command)[0] == 0  # nothing had begun, so that nothing is lost
    for more, message in (
        (["--set", "data.max_tokens=99"], "data.max_tokens was 256, is 99"),
        (["--weight", "2"], "the corpora had the weights [1.0], now they have [2.0]"),
    ):
        code, _, err = leave(capsys, *command, *more)
        assert (code, message in err, "to resume" in err) == (2, True, True), err
        assert "--overwrite" not in err
    assert "is finished; nothing to do" in leave(capsys, *command)[2]


def test_learned_positions_have_room_for_every_sentence_and_bound_translations(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*words(tmp_path), "--set", "model.positions=learned", "--out", str(tmp_path / "out")]
    code, _, err = leave(capsys, *command, "--set", "model.max_positions=69")
    assert (code, "a sentence of 70 tokens, but model.max_positions=69" in err) == (2, True), err
    code, _, err = leave(capsys, *command[:-1], str(tmp_path / "other"), "--set", "model.max_positions=70")
    assert code == 0, err  # translations by an untrained model go on to their limit
