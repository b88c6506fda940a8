"""Group a stream of texts into windows that are sorted by length, and windows into batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.types import TYPICAL_TOKENS, WINDOW_CHARACTERS
from dragoman.translation.assembly import Ids
from dragoman.values import describe_value


class SentenceJob(NamedTuple):
    """A sentence to translate, the forced prefix of its translation, and its lexical constraints."""

    source: Ids
    prefix: Ids
    constraints: Constraints


def windows(texts: Iterable[str], max_texts: int) -> Iterator[list[str]]:
    """Lists of at most `max_texts` texts, and of bounded size where they are long."""
    window: list[str] = []
    size = 0
    for text in texts:
        if not isinstance(text, str):
            yield window  # those before it are translated
            raise SearchError(f"a text to translate must be a str; got {describe_value(text)}", code="wrong_type")
        window.append(text)
        size += len(text)
        if len(window) == max_texts or size > WINDOW_CHARACTERS:
            yield window
            window, size = [], 0
    if window:
        yield window


def batches(jobs: Sequence[SentenceJob], batch: int) -> Iterator[Sequence[SentenceJob]]:
    """Jobs, longest first, in groups of at most `batch` sentences of typical length, or fewer that are longer."""
    start = 0
    while start < len(jobs):
        length = max(1, len(jobs[start].source))
        size = max(1, min(batch, batch * TYPICAL_TOKENS // length))
        yield jobs[start : start + size]
        start += size
