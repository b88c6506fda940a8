"""Verify the files of a model directory by their SHA-256."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path

from dragoman.errors import DamagedError
from dragoman.files import MANIFEST, manifest_entries, verify_manifest
from dragoman.modeldir.layout import EDITABLE, REQUIRED
from dragoman.modeldir.tokenizers import tokenizer_names
from dragoman.native.build import cache_directory
from dragoman.text.store import TOKENIZER_KINDS


def hashed_files(directory: Path) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file of a model, by its manifest, which must list everything that a model needs."""
    files = manifest_entries(directory, REQUIRED, EDITABLE)
    for name in tokenizer_names(files):
        if f"{name}.json" not in files or not any(name + suffix in files for suffix, _ in TOKENIZER_KINDS.values()):
            raise DamagedError(
                f"{directory / MANIFEST} does not list {name}.json and the tokenizer's model; restore it from a copy",
                code="manifest_incomplete",
            )
    return files


def verify_model(directory: Path) -> None:
    """Raise DamagedError unless every file is there, byte for byte; the card may be edited or removed."""
    hashed_files(directory)
    verify_manifest(directory, ignored=EDITABLE)


def verify_model_cached(directory: Path) -> None:
    """Verify a model, but hash its files only if they changed since the last time.

    The user's cache directory remembers what was verified, by the manifest's content and by size, times and inode of
    each file. Whether the manifest lists everything is checked every time.
    """
    files = hashed_files(directory)
    try:
        manifest = (directory / MANIFEST).read_bytes()
        stats = [(name, (directory / name).stat()) for name in sorted(files)]
    except (OSError, ValueError):
        verify_model(directory)  # which says what is wrong
        return
    state = [(name, s.st_size, s.st_mtime_ns, s.st_ctime_ns, s.st_ino, s.st_dev) for name, s in stats]
    key = hashlib.sha256(repr((str(directory.resolve()), manifest, state)).encode()).hexdigest()
    marker = cache_directory() / "verified" / key
    with suppress(OSError):  # a directory that may not be entered
        if marker.exists():
            return
    verify_model(directory)
    with suppress(OSError):  # a cache that cannot be written only makes the next start slower
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.touch()
