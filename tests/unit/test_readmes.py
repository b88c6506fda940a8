"""The Chinese README keeps step with the English one: the same headings, commands, code, links and figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh-CN.md"))
TEN_THOUSANDS = {"1.13 million": "113 万", "10,000": "一万"}


def headings(text: str) -> list[int]:
    """The levels of the headings, in order."""
    return [
        len(marks) for marks in re.findall(r"^(#+) ", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    ]


def code_lines(text: str) -> list[str]:
    """The lines of code and of commands, without their comments."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL)
    lines = "".join(blocks).splitlines() + re.findall(r"^ {4}(.*)$", text, re.MULTILINE)
    return [re.sub(r" +# .*", "", line) for line in lines]


def links(text: str) -> list[str]:
    """Where the links and pictures lead."""
    return sorted(re.findall(r"\]\(([^)]+)\)", text))


def figures(text: str) -> list[str]:
    """The numbers with a fraction or a thousands separator outside of code, and the percentages."""
    return sorted(re.findall(r"\d+[.,]\d+|\d+ %", re.sub(r"\([^)]*\)|`[^`]*`", "", text)))


def test_the_headings_are_the_same() -> None:
    assert headings(ENGLISH) == headings(CHINESE)


def test_the_code_is_the_same() -> None:
    assert len(code_lines(ENGLISH)) > 12
    assert code_lines(ENGLISH) == code_lines(CHINESE)


def test_the_links_are_the_same() -> None:
    assert links(ENGLISH.replace("README.zh-CN.md", "README.md")) == links(CHINESE)


def test_the_figures_are_the_same() -> None:
    known = ENGLISH
    for ours, theirs in TEN_THOUSANDS.items():
        known = known.replace(ours, theirs)
    assert figures(known) == figures(CHINESE)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE])
def test_a_readme_is_short(text: str) -> None:
    lines = text.splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 100
    assert len(re.findall(r"^- \*\*", text, re.MULTILINE)) <= 8
