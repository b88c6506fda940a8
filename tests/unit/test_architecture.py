"""docs/architecture.md is correct: every package and file exists, and pictures are up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC, DOCS = ROOT / "src" / "dragoman", ROOT / "docs"
sys.path.insert(0, str(DOCS / "pictures"))
from make_architecture_pictures import drawing, walks  # noqa: E402

PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")
WALKS = walks(PAGE)


def test_every_package_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `(\w+)/` ", PAGE, re.MULTILINE))
    assert named == {path.parent.name for path in SRC.glob("*/__init__.py")}


def test_every_file_that_the_table_names_exists() -> None:
    for package, files in re.findall(r"^\| `(\w+/)` \|.*\| (`[^|]+) \|$", PAGE, re.MULTILINE):
        for file in re.findall(r"`([\w/.]+)`", files):
            assert (SRC / package / file).exists(), f"{package}{file}"


def test_there_are_three_walks() -> None:
    assert sorted(WALKS) == ["walk-inspect", "walk-serve", "walk-train"]


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_passes_each_file_once(name: str) -> None:
    files = WALKS[name]
    assert len(set(files)) == len(files) > 5
    assert [file for file in files if not (SRC / file).is_file()] == []


@pytest.mark.parametrize("name", WALKS)
def test_the_picture_of_a_walk_is_up_to_date(name: str) -> None:
    picture = (DOCS / "pictures" / f"{name}.svg").read_text(encoding="utf-8")
    assert picture == drawing(WALKS[name]), "run: python docs/pictures/make_architecture_pictures.py"


def test_the_glossary_names_what_exists() -> None:
    """Each file or package in its last column."""
    page = (DOCS / "glossary.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+(?:/|\.py))`", page)
    assert len(named) > 15
    assert [path for path in named if not (SRC / path).exists()] == []
