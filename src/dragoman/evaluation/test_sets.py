"""Test sets: references, and the sources to translate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman.data.corpora.lines import read_line_blocks
from dragoman.data.corpora.reader import read_trees_file
from dragoman.errors import DataError
from dragoman.text.trees.dependency import Tree
from dragoman.values import plural

COMPRESSED: Final = (".gz", ".xz", ".zst")


@dataclass(frozen=True)
class EvaluationSet:
    """A test set; sources are optional if a file of translations is scored."""

    name: str
    references: list[str]
    sources: list[str] | None = None
    trees: list[Tree] | None = None
    to: str | None = None  # the language of the references, for a model with several


def read_lines(path: Path) -> list[str]:
    """All lines of a file, compressed or not."""
    return [line for block in read_line_blocks(path) for line in block]


def read_matching_lines(path: Path, other: Path, count: int) -> list[str]:
    """The lines of a file; raise if their number differs from that of another file."""
    found = read_lines(path)
    if len(found) != count:
        message = (
            f"{path} has {plural(len(found), 'line')} but {other} has {count:,}; give one line per sentence in both"
        )
        raise DataError(message, code="count_mismatch")
    return found


def read_test_sets(
    references: Sequence[Path],
    sources: Sequence[Path],
    names: Sequence[str],
    trees: Sequence[Path] = (),
    languages: Sequence[str] = (),
) -> list[EvaluationSet]:
    """Read test sets from files; by default they have the names of their references."""
    if not references:
        raise DataError("there are no references; give --reference for each test set", code="missing_option")
    n, read = len(references), len(sources)
    for count, allowed, expected in (
        (read, (0, n), f"{read} --source but {n} --reference files; give one of each per test set, in the same order"),
        (len(names), (0, n), f"{plural(len(names), 'name')} for {plural(n, 'test set')}; give one for each, or none"),
        (len(trees), (0, read), f"{len(trees)} --source-trees but {read} --source files; give one for each, or none"),
        (
            len(languages),
            (0, 1, n),
            f"{len(languages)} --to for {plural(n, 'test set')}; give one for each, or one for all",
        ),
    ):
        if count not in allowed:
            raise DataError(f"got {expected}", code="count_mismatch")
    targets = languages if languages[1:] else [languages[0] if languages else None] * n
    set_names: list[str] = []
    for name in names or [set_name(path) for path in references]:
        set_names.append(name if name not in set_names else f"{name}-{len(set_names) + 1}")
    found = []
    for i, path in enumerate(references):
        lines = read_lines(path)
        texts = read_matching_lines(sources[i], path, len(lines)) if sources else None
        found.append(
            EvaluationSet(set_names[i], lines, texts, list(read_trees_file(trees[i])) if trees else None, targets[i])
        )
    return found


def set_name(path: Path) -> str:
    """The name of a file without its compression suffix."""
    return path.stem if path.suffix in COMPRESSED else path.name
