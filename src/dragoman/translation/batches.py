"""Texts that come one by one, in lists that are worked on together: read ahead, and sorted by length."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import Demands
from dragoman.search.types import USUAL_TOKENS, WINDOW_CHARACTERS
from dragoman.text.trees.dependency import TreeAligner
from dragoman.translation.assembly import Ids
from dragoman.values import describe_value

T = TypeVar("T")
Job = tuple[Ids, Ids, Demands]  # a sentence, the prefix of its translation, and what is demanded of that


def all_taken(found: Iterator[T], trees: TreeAligner) -> Iterator[T]:
    """What is found, and at its end a refusal of trees that are left over."""
    yield from found
    trees.check_finished()


def windows(texts: Iterable[str], most: int) -> Iterator[list[str]]:
    """Texts in lists of at most `most`, and of bounded size where they are long."""
    window: list[str] = []
    size = 0
    for text in texts:
        if not isinstance(text, str):
            yield window  # those before it are answered
            raise SearchError(f"a text to translate must be a str; got {describe_value(text)}")
        window.append(text)
        size += len(text)
        if len(window) == most or size > WINDOW_CHARACTERS:
            yield window
            window, size = [], 0
    if window:
        yield window


def groups(jobs: Sequence[Job], batch: int) -> Iterator[Sequence[Job]]:
    """Jobs, longest first, in groups of at most `batch` sentences of the usual length, or fewer that are longer."""
    start = 0
    while start < len(jobs):
        length = max(1, len(jobs[start][0]))
        size = max(1, min(batch, batch * USUAL_TOKENS // length))
        yield jobs[start : start + size]
        start += size
