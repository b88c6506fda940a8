"""The READMEs are short; test_docs_chinese.py compares the two."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_a_readme_is_short(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 100
    assert len(re.findall(r"^- \*\*", text, re.MULTILINE)) <= 8
