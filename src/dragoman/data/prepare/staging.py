"""The staging directory of `prepare`, whose write errors are reported as DataError."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman import files
from dragoman.errors import DataError, DragomanError


@contextmanager
def staged(out: Path) -> Iterator[Path]:
    """An empty directory to write into, which becomes `out` when the block succeeds."""
    try:
        with files.staged(out) as staging:
            yield staging
    except OSError as error:  # usually a full disk; reading has errors of its own
        if isinstance(error, DragomanError):
            raise
        raise DataError(
            f"cannot write {out}: {error.strerror or error}; nothing of it was kept", code="cannot_write"
        ) from error
