"""Every `dragoman` command in README and docs/ is accepted by the command line."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import click
import pytest

from dragoman.cli import group
from dragoman.config import Recipe
from dragoman.config.forecast import ForecasterRecipe

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "README.zh-CN.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "_build" not in path.parts),
]
ENDS = {"|", ">", "2>", "<", "&&", ";", "&", "2>&1"}  # of a command, for a shell


def shown(page: Path) -> list[str]:
    """The commands of a page's indented lines, after a prompt or not; a line that ends in \\ goes on."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    return re.findall(r"^ {4}(?:[^#\n]*\| *|\$ )?(dragoman [^\n]*)$", text, re.MULTILINE)


def words_of(line: str) -> list[str]:
    """The words of a command, up to what is the shell's."""
    words = shlex.split(line.replace(" ...", ""), comments=True)[1:]
    return words[: next((i for i, word in enumerate(words) if word in ENDS), len(words))]


COMMANDS = [(page.name, line) for page in PAGES for line in shown(page)]


def test_there_are_some() -> None:
    assert len(COMMANDS) > 60
    assert {"README.md", "README.zh-CN.md", "training.md", "translating.md", "serving.md"} <= {
        page for page, _ in COMMANDS
    }


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=[f"{page} {n}" for n, (page, _) in enumerate(COMMANDS)])
def test_it_is_taken(page: str, line: str) -> None:
    name, command, words = "dragoman", group, words_of(line)
    while isinstance(command, click.Group):
        context = command.make_context(name, words[:1])
        found = command.get_command(context, words[0])
        assert found is not None, line
        name, command, words = words[0], found, words[1:]
    with suppress(*([click.MissingParameter] if " ... " in line else [])):  # what is left out, the reader fills in
        command.make_context(name, words)
    for option, change in pairwise(words):
        if option == "--set":
            (ForecasterRecipe if line.startswith("dragoman forecast ") else Recipe).from_changes([change])
