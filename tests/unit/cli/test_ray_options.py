"""--ray on the command line: without Ray, the pip line; without --ray, its options are rejected."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from command_line import leave
from small_model import model_at

SIDES = ("--source", "t.en", "--target", "t.de")
COMMANDS = {
    "translate": ("MODEL", "t.en", "-o", "out"),
    "score": ("MODEL", "t.tsv", "-o", "out"),
    "prepare": (*SIDES, "--out", "out", "--set", "text.vocabulary_size=300"),
    "distill": ("MODEL", "--source", "t.en", "--out", "out"),
}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    for name, line in (("t.en", "one two\n"), ("t.de", "eins zwei\n"), ("t.tsv", "one\teins\n")):
        Path(name).write_text(line * 30)
    return str(model_at(tmp_path / "model"))


@pytest.mark.parametrize("command", COMMANDS)
def test_without_ray_installed_the_pip_line_is_printed(
    command: str, model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    words = [model if word == "MODEL" else word for word in COMMANDS[command]]
    code, out, err = leave(capsys, command, *words, "--ray", "local")
    assert (code, out) == (2, "")
    assert "pip install 'dragoman[ray]'" in err
    assert not Path("out").exists() or not any(path.is_file() for path in Path("out").glob("*"))


@pytest.mark.parametrize(
    ("command", "option"),
    [("translate", "--workers"), ("translate", "--block"), ("score", "--workers"), ("distill", "--workers")],
)
def test_options_of_ray_need_ray(command: str, option: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [model if word == "MODEL" else word for word in COMMANDS[command]]
    code, _, err = leave(capsys, command, *words, option, "2")
    assert code == 2
    assert option in err and "--ray" in err


def test_fields_of_rows_need_ray(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--field", "--output-field"):
        code, _, err = leave(capsys, "translate", model, "t.en", option, "x")
        assert code == 2
        assert option in err
