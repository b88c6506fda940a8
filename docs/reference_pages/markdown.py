"""Markdown for the reference: tables, wrapped paragraphs, and docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 100


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; vertical bars inside cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def paragraphs(text: str | None) -> list[str]:
    """The paragraphs of a docstring or help text, wrapped; indented and preformatted ones stay as they are."""
    blocks = []
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text or "")):
        if block.startswith("\b"):  # click's mark of preformatted text
            blocks.append(textwrap.indent(textwrap.dedent(block.lstrip("\b\n")), "    "))
        elif block.startswith(" "):
            blocks.append(textwrap.indent(textwrap.dedent(block), "    "))
        elif block:
            blocks.append(wrap(" ".join(block.split())))
    return blocks


def wrap(text: str) -> str:
    """A paragraph in lines of at most 100 columns."""
    plain = re.sub(r"(?<![`\\])<", r"\\<", text) if "`" not in text else text
    return textwrap.fill(plain, WIDTH, break_long_words=False, break_on_hyphens=False)


def code(text: str, language: str = "text") -> str:
    """A fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"
