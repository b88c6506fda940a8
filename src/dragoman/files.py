"""Files that appear whole or not at all, and directories that can be verified.

Everything that must survive a killed process or a full disk is written beside its place under another name, synced,
and renamed. A manifest holds the SHA-256 of each file of a directory; what it does not confirm is not loaded.
Locks belong to living processes: the system lets go of them, however their holder ended.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from dragoman.errors import DamagedError, DragomanError

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
READ: Final = (".safetensors", ".toml", ".json", ".spm")  # what is ever read from a directory with a manifest
WEIGHTS, RECIPE, ABOUT = NEEDED = "model.safetensors", "recipe.toml", "model.json"  # of a model directory


def is_model(directory: Path) -> bool:
    """Whether a finished model is there, by the names of its files."""
    return (directory / MANIFEST).is_file() and (directory / RECIPE).is_file()


def write_safely(path: Path, content: bytes | str) -> None:
    """All of the file or none of it, whenever the machine stops; a link stays, and what it leads to is written."""
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have the disk hold a file's content, or the names in a directory."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def forget_cached(path: Path) -> None:
    """Have the next read come from the disk, where the system can do that, so that a check checks what lies there."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sha256(path: Path) -> str:
    """The hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_manifest(directory: Path) -> None:
    """List every file of the directory with its size and SHA-256, read back from the disk, and sync them all.

    Directories inside it are left out: they are no part of what is promised.
    """
    files = {}
    for path in sorted(p for p in directory.iterdir() if p.is_file() and p.name != MANIFEST):
        sync(path)
        forget_cached(path)
        files[str(path.relative_to(directory))] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    write_safely(directory / MANIFEST, json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n")


def promised(directory: Path, needed: Iterable[str] = ()) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file by its manifest, which must name what is `needed` and everything that is read.

    Were such a file allowed that it does not name, a manifest cut short would confirm what it never saw. Directories,
    hidden files and what people put beside a model (notes, logs, pictures) are no part of the promise.
    """
    path = directory / MANIFEST
    try:
        manifest = json.loads(path.read_bytes())
        files = {str(name): (int(entry["bytes"]), str(entry["sha256"])) for name, entry in manifest["files"].items()}
        written = manifest["format"]
    except FileNotFoundError:
        raise DamagedError(f"{directory} has no {MANIFEST}: it is not a directory that Dragoman finished") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None
    if written != FORMAT:
        raise DamagedError(f"{path} has format {written!r}; this Dragoman reads format {FORMAT}; use a newer one")
    if not files:
        raise DamagedError(f"{path} names no files; restore it from a copy")
    for name in files:
        if name in ("", "..") or Path(name).name != name:
            raise DamagedError(f"{path} names {name!r}, which is no file of {directory}; restore it from a copy")
    for name in needed:
        if name not in files:
            raise DamagedError(f"{path} does not name {name}, without which there is no model; restore it from a copy")
    there = sorted(p.name for p in directory.iterdir() if p.suffix in READ and p.is_file() and p.name[0] != ".")
    for name in there:
        if name not in files and name != MANIFEST:
            raise DamagedError(
                f"{directory / name} is not in {MANIFEST}: either it does not belong there, so move it elsewhere, or "
                f"{MANIFEST} was cut short, so restore it from a copy"
            )
    return files


def verify_manifest(directory: Path, needed: Iterable[str] = ()) -> None:
    """Refuse a directory that is not, byte for byte, what its manifest says, or does not have what is `needed`."""
    for name, (size, digest) in promised(directory, needed).items():
        file = directory / name
        if not file.is_file():
            raise DamagedError(f"{file} is missing; {MANIFEST} promises it")
        if file.stat().st_size != size:
            raise DamagedError(
                f"{file} has {file.stat().st_size:,} bytes; {MANIFEST} says {size:,}: it was cut or changed"
            )
        try:
            found = sha256(file)
        except OSError as error:
            raise DamagedError(f"{file} cannot be read ({error.strerror}); restore it from a copy") from None
        if found != digest:
            raise DamagedError(f"{file} was changed or damaged: its SHA-256 is not the one in {MANIFEST}")


def stored_vocabulary(directory: Path) -> int | tuple[int, int]:
    """How many tokens a model directory's vocabulary has, or its (source, target) vocabularies."""
    path = directory / ABOUT
    try:
        found = json.loads(path.read_bytes())["vocabulary"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None
    sizes = found if isinstance(found, list) and len(found) == 2 else [found]
    if not all(type(size) is int and size > 0 for size in sizes):
        raise DamagedError(
            f"{path} has the vocabulary {found!r}; expected a number of tokens, or [source, target]; "
            "restore it from a copy"
        )
    return (sizes[0], sizes[1]) if isinstance(found, list) else int(found)


def check_tensors(
    path: Path, found: Mapping[str, Sequence[int]], expected: Iterable[tuple[str, tuple[int, ...]]]
) -> None:
    """Refuse weights whose names and shapes are not those of the model that the files beside them describe."""
    names, beside_it = set(), f"{RECIPE} and {ABOUT} beside it"
    for name, shape in expected:
        names.add(name)
        if name not in found:
            raise DamagedError(
                f"{path} has no tensor {name}; {beside_it} ask for one of shape {shape}; restore them from a copy"
            )
        if tuple(found[name]) != shape:
            raise DamagedError(
                f"{path} has the tensor {name} of shape {tuple(found[name])}; {beside_it} ask for {shape}; "
                "restore them from a copy"
            )
    if more := sorted(found.keys() - names):
        raise DamagedError(f"{path} has a tensor {more[0]}; {beside_it} know of none; restore them from a copy")


def listed(paths: Iterable[Path]) -> str:
    """The names of some files as a person would tell them; nothing for none."""
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in paths)
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")


@contextmanager
def staged(place: Path) -> Iterator[Path]:
    """An empty directory to write into; it becomes `place` when the block ends, and vanishes when the block fails.

    What a killed process left behind is removed here; a lock tells it from what a living process is writing.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    staging, lock = beside(place, "staging"), beside(place, "lock")
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(held.fileno()).st_ino != lock.stat().st_ino:
                raise BlockingIOError  # its last holder removed the file that we have just locked
        except OSError:
            raise DragomanError(
                f"another process is writing {place} right now; wait for it, or choose another place"
            ) from None
        try:
            recover(place)
            staging.mkdir()
            yield staging
            swap(staging, place)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            lock.unlink(missing_ok=True)


@contextmanager
def only_one(path: Path, doing: str) -> Iterator[None]:
    """Hold a place for one process at a time; a second one is refused, and told who holds it.

    The file stays when it is let go: a lock whose file is removed can be held twice. The lock is one of `lockf`, which
    a forked child does not inherit.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as held:
        try:
            fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held.seek(0)
            holder = held.read().decode(errors="replace") or "another process"
            raise DragomanError(f"{holder} is {doing} right now; wait for it, or choose another place") from None
        with suppress(OSError):  # a full disk has no room for the name, but for the lock
            held.truncate(0)
            held.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
        yield


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
    try:
        staging.rename(place)
    except BaseException:  # a second Ctrl-C too: either the new one or the old one stands at the place
        if old.exists() and not place.exists():
            old.rename(place)
        raise
    sync(place.parent)
    with suppress(OSError):
        shutil.rmtree(old)


def beside(place: Path, what: str) -> Path:
    """The name of a helper of `place`, in the same directory and so on the same disk."""
    return place.parent / f".{place.name}.{what}"
