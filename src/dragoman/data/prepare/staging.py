"""The directory of a preparation, which appears whole or not at all, with failures told as failures of the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman import files
from dragoman.errors import DataError, DragomanError


@contextmanager
def staged(place: Path) -> Iterator[Path]:
    """An empty directory to write into, which becomes `place` when the block ends well."""
    try:
        with files.staged(place) as staging:
            yield staging
    except OSError as error:  # a full disk, as a rule; files that are read have errors of their own
        if isinstance(error, DragomanError):
            raise
        raise DataError(
            f"cannot write {place}: {error.strerror or error}; nothing is left of it", code="write_failed"
        ) from error
