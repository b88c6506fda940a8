"""`dragoman engines`, and the same table in docs/reference/engines.md."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from command_line import leave
from dragoman.engines.base import Capabilities
from dragoman.engines.select import ENGINES
from dragoman.engines.specs import capability_rows
from small_model import model_at

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "engines.md"


def test_every_capability_has_a_row() -> None:
    labels = [row[0] for row in capability_rows()[1:]]
    assert len(labels) == len(set(labels)) == len(fields(Capabilities)) and all(labels)


def test_the_table_in_the_docs_is_up_to_date() -> None:
    header, *body = capability_rows()
    lines = [header, ["---"] * len(header), *body]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    assert table in DOCS.read_text(encoding="utf-8"), f"docs/reference/engines.md needs this table:\n{table}"


def test_the_command_shows_the_table_and_what_is_available(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "engines", "--device", "cpu")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 120
    assert "On cpu here:" in out and "it needs an NVIDIA GPU" in out


def test_a_model_that_an_engine_does_not_support(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(model_at(tmp_path / "m", architecture="recurrent"))
    code, out, _ = leave(capsys, "engines", model, "--device", "cpu", "--json")
    found = {entry["engine"]: entry for entry in json.loads(out)}
    assert code == 0 and list(found) == list(ENGINES)
    assert not found["native"]["available"] and "model.architecture='recurrent'" in found["native"]["reason"]
    assert found["torch"]["available"] and found["torch"]["reason"] is None
    assert found["native"]["capabilities"]["max_beam"] == 64


def test_engines_without_a_compiler(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.engines.native_model.library", lambda *_, **__: None)
    monkeypatch.setattr("dragoman.engines.specs.why_not", lambda _: "no C compiler was found")
    code, out, _ = leave(capsys, "engines", "--device", "cpu")
    assert code == 0 and "no C compiler was found" in out


@pytest.mark.parametrize("words", [("--device", "foo"), ("nowhere",)])
def test_what_is_not_there(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = leave(capsys, "engines", *words)
    assert (code, out) == (2, "") and words[-1] in err
