"""`dragoman train` and what it refuses, before it writes anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from command_line import leave
from small_model import model_at
from tiny_run import TINY, write_corpus

SETTINGS = [word for change in (*TINY, "train.steps=2", "train.warmup_steps=1") for word in ("--set", change)]


def words(folder: Path) -> list[str]:
    corpus = write_corpus(folder)
    return ["train", "--source", str(corpus.source), "--target", str(corpus.target), *SETTINGS]


def test_a_directory_with_something_else_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [*words(tmp_path), "--out", str(tmp_path / "out")]
    (tmp_path / "out" / "photos").mkdir(parents=True)
    (tmp_path / "out" / "photos" / "one.png").write_bytes(b"x")
    (tmp_path / "out" / "training").mkdir()  # not ours, whatever its name
    (tmp_path / "out" / "training" / "plan.txt").write_text("run")
    code, _, err = leave(capsys, *command)
    assert (code, "out holds photos/, training/, and no training or model" in err) == (2, True), err
    assert sorted(p.name for p in tmp_path.glob("out/**/*")) == ["one.png", "photos", "plan.txt", "training"]
    code, _, err = leave(capsys, *command[:-1], str(tmp_path / "numbers.en"))
    assert (code, "is a file, but --out is the directory" in err) == (2, True), err
    model = model_at(tmp_path / "model")
    assert leave(capsys, *command[:-1], str(model / "model.json"))[0] == 2
    assert "is finished; nothing to do" in leave(capsys, *command[:-1], str(model))[2]


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
