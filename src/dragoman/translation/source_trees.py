"""Dependency trees of source sentences, for models that read them (`model.positions="syntax"`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from dragoman.config import ModelRecipe, unused_keys
from dragoman.errors import DragomanError, SearchError
from dragoman.text import Tree, normalize
from dragoman.text.trees.dependency import TreeAligner

T = TypeVar("T")


def check_trees(model: ModelRecipe, trees: object) -> None:
    """Raise if trees are missing for a model that reads them, or given for one that does not."""
    if model.reads_trees and trees is None:
        raise SearchError(
            "this model has model.positions='syntax' and reads each sentence with its dependency tree; give the trees: "
            "--source-trees with a CoNLL-U file, or trees=... in Python",
            code="trees_missing",
        )
    if trees is not None and not model.reads_trees:
        why = "positions" if "positions" not in unused_keys(model.architecture) else "architecture"
        raise SearchError(
            f"this model has model.{why}={getattr(model, why)!r} and does not read trees; drop them, or use a model "
            "trained with model.positions='syntax'",
            code="trees_not_supported",
        )


def parse_trees(model: ModelRecipe, trees: Tree | Iterable[Tree] | TreeAligner | None) -> TreeAligner | None:
    """The trees of a call, taken one by one."""
    check_trees(model, trees)
    if trees is None or isinstance(trees, TreeAligner):
        return trees
    if not isinstance(trees, Iterable) or isinstance(trees, str | bytes):
        trees = [trees]  # one tree for one text; anything else is rejected when it is taken
    return TreeAligner(trees)


def depths_of_texts(texts: Sequence[str], trees: TreeAligner) -> tuple[list[bytes], DragomanError | None]:
    """The depths of each text up to the first whose tree is wrong, and what is wrong with that one."""
    found: list[bytes] = []
    for text in texts:
        try:
            found.append(trees.byte_depths(normalize(text)))
        except DragomanError as error:
            return found, error
    return found, None


def with_all_trees_used(results: Iterator[T], trees: TreeAligner) -> Iterator[T]:
    """The results; raise at their end if trees are left over."""
    yield from results
    trees.check_finished()
