"""CHANGELOG.md: the newest version is that of the package, and each change is one line under a known heading."""

from __future__ import annotations

import re
from pathlib import Path

from dragoman import __version__

LINES = (Path(__file__).parents[2] / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()


def test_the_newest_version_is_this_one() -> None:
    assert next(line for line in LINES if line.startswith("## ")) == f"## {__version__}"


def test_each_change_is_one_line_in_a_section() -> None:
    sections = [line for line in LINES if line.startswith("### ")]
    assert sections == ["### Added", "### Changed", "### Fixed"]
    changes = LINES[LINES.index(sections[0]) :]
    assert [line for line in changes if line and not re.match(r"- |### ", line)] == []
    assert [line for line in LINES if len(line) > 100] == []
