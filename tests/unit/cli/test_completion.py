"""Shell completion, and help for every option."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from dragoman.cli import COMMANDS, group
from dragoman.config import PRESETS


def completed(*words: str) -> list[tuple[str, str]]:
    """The kind and the text of each word that may stand last."""
    *before, last = words
    found = BashComplete(group, {}, "dragoman", "_DRAGOMAN_COMPLETE").get_completions(before, last)
    return [(item.type, item.value) for item in found]


def test_verbs_options_and_choices() -> None:
    assert completed("tra") == [("plain", "train"), ("plain", "translate")]
    assert completed("translate", "--eng") == [("plain", "--engine")]
    assert ("plain", "native") in completed("translate", "--engine", "")


@pytest.mark.parametrize(
    "words",
    [["translate"], ["evaluate"], ["score"], ["serve"], *(["inspect", what] for what in ("attention", "alignment"))],
)
def test_a_model_is_a_directory_or_a_name(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("en-de", "en-fr", "zh-en"):
        (tmp_path / name).mkdir()
    for name in ("en-de", "zh-en"):
        (tmp_path / name / "manifest.json").touch()
    monkeypatch.setenv("DRAGOMAN_MODELS", str(tmp_path))
    assert completed(*words, "en") == [("dir", "en"), ("plain", "en-de")]


@pytest.mark.parametrize("words", [["recipe"], ["train", "--recipe"], ["prepare", "--recipe"]])
def test_a_recipe_is_a_file_or_a_preset(words: list[str]) -> None:
    assert completed(*words, "") == [("file", ""), *(("plain", name) for name in PRESETS)]
    assert completed(*words, "b") == [("file", "b"), ("plain", "base"), ("plain", "big")]


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        yield from commands(inner, f"{name} {inner.name}")


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_option_is_explained(verb: str) -> None:
    command = group.get_command(click.Context(group), verb)
    assert command is not None
    for name, found in commands(command, verb):
        assert found.help, name
        for option in found.params:
            assert not isinstance(option, click.Option) or option.help, f"{name} {option.name}"
