"""A directory that appears whole or not at all: written beside its place under another name, then renamed."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dragoman.errors import DataError


@contextmanager
def staged(place: Path) -> Iterator[Path]:
    """An empty directory to write into; it becomes `place` when the block ends, and vanishes when the block fails.

    What a killed process left behind is removed here; a lock tells it from what a living process is writing.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        staging, lock = beside(place, "staging"), beside(place, "lock")
        held = lock.open("w")
    except OSError as error:
        raise DataError(f"cannot write {place}: {error.strerror}; choose another place") from None
    with held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(held.fileno()).st_ino != lock.stat().st_ino:
                raise BlockingIOError  # its last holder removed the file that we have just locked
        except OSError:
            raise DataError(
                f"another process is writing {place} right now; wait for it, or choose another place"
            ) from None
        try:
            recover(place)
            staging.mkdir()
            yield staging
            swap(staging, place)
        except OSError as error:  # a full disk, as a rule; files that are read have errors of their own
            raise DataError(f"cannot write {place}: {error.strerror or error}; nothing is left of it") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            lock.unlink(missing_ok=True)


def recover(place: Path) -> None:
    """Put right what a process that was killed left beside the place."""
    old = beside(place, "old")
    if old.exists() and not place.exists():
        old.rename(place)  # it was killed between the two renames of `swap`
    for stale in (old, beside(place, "staging")):
        if stale.exists():
            shutil.rmtree(stale)


def swap(staging: Path, place: Path) -> None:
    """Put the new directory at its place, and only then remove the old one."""
    sync(staging)
    old = beside(place, "old")
    if place.exists():
        place.rename(old)
    staging.rename(place)
    sync(place.parent)
    with suppress(OSError):
        shutil.rmtree(old)


def beside(place: Path, what: str) -> Path:
    """The name of a helper of `place`, in the same directory and so on the same disk."""
    return place.parent / f".{place.name}.{what}"


def sync(directory: Path) -> None:
    """Have the disk know the names in a directory."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
