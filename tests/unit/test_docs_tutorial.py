"""The tutorials work when they are followed literally, with fewer pairs and steps so that it takes seconds."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from command_line import leave

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
SMALLER = {"20_000": "600", "500}": "30}", "train.steps=2000": "train.steps=6", "train.steps=4000": "train.steps=8"}
NOT_RUN = ("serve",)  # it does not return; tests/integration/test_serve_process.py runs it


def steps(page: str) -> list[tuple[str, str]]:
    """The Python blocks and `dragoman` commands of a page in order, made smaller."""
    text = (TUTORIAL / page).read_text(encoding="utf-8")
    for large, small in SMALLER.items():
        text = text.replace(large, small)
    found = re.findall(
        r"```python\n(.*?)```|^    (?:\$ )?(dragoman (?:[^\n]*\\\n)*[^\n]*)$", text, re.DOTALL | re.MULTILINE
    )
    return [("python", block) if block else ("command", command.replace("\\\n", " ")) for block, command in found]


def test_each_tutorial_has_steps() -> None:
    assert [len(steps(page)) for page in ("first-translator.md", "look-inside.md", "serve.md")] == [9, 5, 1]


def test_the_tutorials_can_be_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for page in ("first-translator.md", "look-inside.md", "serve.md"):
        for kind, step in steps(page):
            if kind == "python":
                exec(compile(step, page, "exec"), {})
                continue
            words = shlex.split(step, comments=True)[1:]
            if words[0] in NOT_RUN:
                continue
            code, _, err = leave(capsys, *words)
            assert code == 0, f"{step}: {err}"
    made = {path.name for path in tmp_path.iterdir()}
    assert {"train.en", "my-model", "translated.de", "report", "attention.html", "heads.png"} <= made
    assert len((tmp_path / "translated.de").read_text(encoding="utf-8").splitlines()) == 30
