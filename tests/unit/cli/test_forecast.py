"""`dragoman forecast` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import leave
from small_series import TINY, write_series


def test_train_predict_and_evaluate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_series(tmp_path / "data.csv", rows=150)
    changes = [word for change in TINY for word in ("--set", change)]
    sizes = ("--target", "heat", "--horizon", "5", "--look-back", "12", "--device", "cpu")
    code, out, err = leave(capsys, "forecast", "train", "data.csv", *sizes, "--out", "m", *changes)
    assert (code, out) == (0, "")
    assert "values/s" in err
    code, out, _ = leave(capsys, "forecast", "predict", "m", "data.csv")
    lines = out.splitlines()
    assert (code, lines[0], len(lines)) == (0, "date,heat", 6)
    code, out, _ = leave(capsys, "forecast", "predict", "m", "data.csv", "--out", "ahead.csv", "--picture", "a.png")
    assert (code, out) == (0, "")
    assert (tmp_path / "ahead.csv").read_text().splitlines() == lines
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    before = (tmp_path / "data.csv").read_bytes()
    for option in ("--out", "--picture"):
        code, _, err = leave(capsys, "forecast", "predict", "m", "data.csv", option, "data.csv")
        assert (code, "data.csv is also an input" in err) == (2, True), err
    assert (tmp_path / "data.csv").read_bytes() == before
    code, out, _ = leave(capsys, "forecast", "evaluate", "m", "data.csv")
    assert code == 0
    assert [line.split("  ")[0] for line in out.splitlines()[2:]] == ["m", "seasonal naive", "linear"]
    code, out, _ = leave(capsys, "forecast", "evaluate", "m", "data.csv", "--json", "--part", "valid", "--season", "6")
    assert (code, json.loads(out)["part"]) == (0, "valid")


def test_errors_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.csv"
    data.write_text("date,a\n2024-01-01,1\n2024-01-02,x\n", encoding="utf-8")
    code, _, err = leave(capsys, "forecast", "train", str(data), "--horizon", "1", "--out", str(tmp_path / "m"))
    assert (code, err.count("\n"), "line 3" in err) == (2, 1, True)
    assert not (tmp_path / "m").exists()
    code, _, err = leave(capsys, "forecast", "evaluate", str(tmp_path / "none"), str(data), "--json")
    assert (code, json.loads(err)["error"]["code"]) == (2, "model_not_found")
