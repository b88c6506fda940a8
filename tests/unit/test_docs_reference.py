"""The generated reference is up to date, and has every command, option, recipe key, path and public name."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import get_type_hints

import click
import pytest

import dragoman
import dragoman.ray
from dragoman.cli import COMMANDS, group
from dragoman.config import Recipe

pytest.importorskip("fastapi")  # the HTTP API's pages are made from the server

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))
from make_reference import PAGES, REFERENCE, render  # noqa: E402
from reference_pages.http_api import openapi  # noqa: E402


def read(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def sections(name: str, level: str) -> dict[str, str]:
    """The text below each heading of a level, by heading."""
    parts = re.split(rf"^{level} (.+)$", read(name), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def every_command() -> dict[str, click.Command]:
    """Commands and subcommands by full name, found without the generator."""
    found: dict[str, click.Command] = {}
    context = click.Context(group, info_name="dragoman")
    for name in COMMANDS:
        command = group.get_command(context, name)
        assert command is not None
        inner = command.commands.items() if isinstance(command, click.Group) else [("", command)]
        found |= {f"dragoman {name} {sub}".strip(): each for sub, each in inner}
    return found


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    assert read(name) == render(name), "run: python docs/make_reference.py"


@pytest.mark.parametrize(("name", "command"), every_command().items(), ids=list(every_command()))
def test_every_option_of_every_command_has_a_row(name: str, command: click.Command) -> None:
    text = sections("cli.md", "###" if name.count(" ") > 1 else "##")[name].split("\n## ")[0]
    options = [option for option in command.params if isinstance(option, click.Option)]
    rows = re.findall(r"^\| (`-.*?) \| .+? \|", text, re.MULTILINE)
    assert [re.findall(r"`([^`]+)`", row) for row in rows] == [
        [*option.opts, *option.secondary_opts] for option in options
    ]


def test_every_recipe_key_has_a_row_with_a_meaning() -> None:
    rows = re.findall(r"^\| `(\w+\.\w+)` \| (.+?) \| (.+?) \| (.*?) \|", read("recipe.md"), re.MULTILINE)
    keys = [f"{section}.{each.name}" for section, kind in get_type_hints(Recipe).items() for each in fields(kind)]
    assert [key for key, *_ in rows[: len(keys)]] == keys
    assert all(meaning.strip() and kind.strip() for _, meaning, kind, _ in rows[: len(keys)])


def test_every_public_name_has_a_section_with_a_signature() -> None:
    found = sections("python-api.md", "###")
    on_ray = {f"ray.{name}" for name in dragoman.ray.__all__}
    assert {*found} == ({*dragoman.__all__} - {"__version__"}) | on_ray
    for name, text in found.items():
        value = attrgetter(name)(dragoman)
        if inspect.isfunction(value):
            assert all(f"{parameter}" in text for parameter in inspect.signature(value).parameters), name


def test_every_public_method_has_a_section() -> None:
    found = sections("python-api.md", "####")
    for name in ("translate", "stream", "score", "stream_scores", "load"):
        assert f"Translator.{name}" in found
    for name in ("encode", "decode", "forward", "start", "step"):
        assert f"Transformer.{name}" in found


def test_every_path_and_field_of_the_server_is_there() -> None:
    page, document = read("http-api.md"), openapi()
    for path, methods in document["paths"].items():
        assert all(f"\n## {method.upper()} {path}\n" in page for method in methods)
    found = sections("http-api.md", "###")
    for name, schema in document["components"]["schemas"].items():
        assert all(f"| `{field}` |" in found[name] for field in schema.get("properties", {})), name
