"""Test sets: sentences that were held out of training, with the translations to compare ours with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.corpora.reader import read_line_blocks, read_trees_file
from dragoman.errors import DataError
from dragoman.text import Tree

PACKED = (".gz", ".xz", ".zst")


@dataclass(frozen=True)
class HeldOut:
    """One test set. Sources are not needed where a file of translations is scored."""

    name: str
    references: list[str]
    sources: list[str] | None = None
    trees: list[Tree] | None = None
    to: str | None = None  # the references' language, for a model of several


def read_lines(path: Path) -> list[str]:
    """All lines of a file, packed or not; an empty or missing one is an error that names it."""
    return [line for block in read_line_blocks(path) for line in block]


def read_beside(path: Path, beside: Path, count: int) -> list[str]:
    """The lines of a file that must have as many as another has."""
    found = read_lines(path)
    if len(found) != count:
        raise DataError(
            f"{path} has {len(found):,} lines but {beside} has {count:,}; line i of one belongs to line i of the "
            "other, so the counts must be equal"
        )
    return found


def read_held_out(
    references: Sequence[Path],
    sources: Sequence[Path],
    names: Sequence[str],
    trees: Sequence[Path] = (),
    languages: Sequence[str] = (),
) -> list[HeldOut]:
    """The test sets that these files hold, in their order; without names they are called by their references."""
    if not references:
        raise DataError("there is nothing to compare with; give --reference, once for each test set")
    if sources and len(sources) != len(references):
        raise DataError(
            f"{len(sources)} files came with --source but {len(references)} with --reference; give one of each for "
            "every test set, in the same order"
        )
    if names and len(names) != len(references):
        raise DataError(f"{len(names)} names came for {len(references)} test sets; give one for each, or none")
    if trees and len(trees) != len(sources):
        raise DataError(
            f"{len(trees)} files came with --source-trees but {len(sources)} with --source; give one for each, or none"
        )
    if len(languages) not in (0, 1, len(references)):
        raise DataError(
            f"{len(languages)} languages came with --to for {len(references)} test sets; give one for each, or one for "
            "all"
        )
    into: list[str | None] = [*languages] * (len(references) if len(languages) == 1 else 1) or [None] * len(references)
    called: list[str] = []
    for name in names or [short(path) for path in references]:
        called.append(name if name not in called else f"{name}-{len(called) + 1}")
    found = []
    for i, path in enumerate(references):
        lines_of = read_lines(path)
        texts = read_beside(sources[i], path, len(lines_of)) if sources else None
        found.append(HeldOut(called[i], lines_of, texts, list(read_trees_file(trees[i])) if trees else None, into[i]))
    return found


def short(path: Path) -> str:
    """A file's name without its packing."""
    return path.stem if path.suffix in PACKED else path.name
