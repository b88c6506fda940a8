"""Pages of docs/: links lead somewhere, lines are short, and docs/explanation/paper.md names what exists."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPER = (ROOT / "docs" / "explanation" / "paper.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in PAPER.splitlines()
    if line.startswith("|") and not set(line) <= set("|- :")
][1:]
PAGES = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts]
MAX_COLUMNS = 100
SECTIONS = ["1", "2", "3", "3.1", "3.2", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "4", "5", "5.1", "5.2", "5.3",
            "5.4", "6", "6.1", "6.2", "6.3", "7"]  # fmt: skip


def test_every_section_of_the_paper_has_a_row() -> None:
    assert sorted({row[0].split()[0] for row in ROWS}) == sorted(SECTIONS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_file_and_symbol_exists(row: list[str]) -> None:
    section, file, symbols = row[0], row[1], row[2]
    if file == "not yet":
        assert symbols, f"section {section} must say what is missing"
        return
    path = ROOT / file.strip("`")
    assert path.exists(), path
    for symbol in re.findall(r"`([^`]+)`", symbols):
        if path.suffix == ".py" and path.is_relative_to(ROOT / "src"):
            target = importlib.import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
            for name in symbol.split("."):
                fields = getattr(target, "__dataclass_fields__", {})
                assert hasattr(target, name) or name in fields, f"{path} has no {symbol}"
                target = getattr(target, name, None)
        else:
            assert (path / symbol).exists() if path.is_dir() else symbol in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [*ROOT.glob("*.md"), *PAGES], ids=lambda p: p.name)
def test_links_inside_the_repository_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        if not re.match(r"[a-z]+:", link):
            assert (path.parent / link).exists(), f"{path.name} links to {link}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.name)
def test_lines_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > MAX_COLUMNS and not line.startswith("|")] == []


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pattern = r"^((?:zh/)?(?:tutorial|howto|reference|explanation)/[\w-]+|zh/index)$"
    listed = set(re.findall(pattern, index, re.MULTILINE))
    assert listed == {str(path.relative_to(ROOT / "docs").with_suffix("")) for path in PAGES} - {"index"}
