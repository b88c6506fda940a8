"""Write files atomically, verify directories by their manifests, and lock them.

Everything that must survive a killed process or a full disk is written under another name, synced, and renamed. A
manifest holds the size and SHA-256 of the files of a directory. Locks end with their process, however it ends.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any, Final

from dragoman.errors import DamagedError, DragomanError, OutputError
from dragoman.file_locks import lock_file, lock_for_process
from dragoman.values import render_value

MANIFEST: Final = "manifest.json"
MANIFEST_FORMAT: Final = 1
MAX_JSON_DEPTH: Final = 32
LOADED_SUFFIXES: Final = (".safetensors", ".toml", ".json", ".spm")  # of files that are ever loaded


def write_atomically(path: Path, content: bytes | str | Iterable[bytes]) -> None:
    """Write a file completely or not at all, even if the machine stops; a link is followed."""
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with temporary.open("wb") as file:
            file.writelines(content_parts(content))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def content_parts(content: bytes | str | Iterable[bytes]) -> Iterable[bytes]:
    """What to write, in parts."""
    if isinstance(content, str):
        return [content.encode()]
    return [content] if isinstance(content, bytes) else content


def write_output(path: Path, content: str | bytes | Iterable[bytes]) -> None:
    """Write an output to a file, a pipe or a device; at once or as its parts come."""
    check_parent(path)
    try:
        if path.is_fifo() or path.is_char_device():
            with path.open("wb") as stream:
                stream.writelines(content_parts(content))
            return
        write_atomically(path, content)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; choose another output") from None


def check_parent(path: Path) -> None:
    """Raise OutputError if the directory of an output file does not exist: a typo in it must not create another."""
    if not path.parent.is_dir():
        raise OutputError(
            f"cannot write {path}: the directory {path.parent} does not exist; create it, or choose another output"
        )


def sync(path: Path) -> None:
    """Flush a file's content, or the names in a directory, to the disk."""
    if sys.platform == "win32" and path.is_dir():  # Windows opens no directories, and keeps names itself
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def drop_page_cache(path: Path) -> None:
    """Make the next read come from the disk, if the system supports it, so that a check reads what was stored."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sha256(path: Path) -> str:
    """The hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class NestingError(ValueError):
    """JSON that is nested too deeply."""

    def __init__(self) -> None:
        super().__init__(f"nested more than {MAX_JSON_DEPTH} levels deep")


def parse_json(content: bytes | str, *, finite: bool = True) -> Any:
    """Parse untrusted JSON; raise ValueError if anything is wrong with it.

    Unlike `json.loads`, it rejects text that is not UTF-8, lone surrogates, deep nesting, and, if `finite`, NaN and
    Infinity, which would cause errors later, far from the file.
    """
    text = content if isinstance(content, str) else content.decode("utf-8-sig")
    try:
        found = json.loads(text, parse_float=_finite, parse_constant=_finite) if finite else json.loads(text)
    except RecursionError:
        raise NestingError from None
    level = [found]
    for _ in range(MAX_JSON_DEPTH):
        if not level:
            break
        values = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [value for each in values for value in each if isinstance(value, dict | list)]
    if level:
        raise NestingError
    if re.search(r"\\u[dD][89a-fA-F]", text):
        json.dumps(found, ensure_ascii=False).encode()  # of a lone surrogate, a UnicodeEncodeError
    return found


def _finite(text: str) -> float:
    """Parse a number; reject NaN and infinity."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is not a finite number")
    return number


def write_manifest(directory: Path, ignored: Collection[str] = ()) -> None:
    """Sync the files of a directory and list each with its size and SHA-256, as read back from the disk.

    Subdirectories and `ignored` files are left out.
    """
    files = {}
    for path in sorted(p for p in directory.iterdir() if p.is_file() and p.name != MANIFEST):
        sync(path)
        if path.name not in ignored:
            drop_page_cache(path)
            files[path.name] = {"bytes": path.stat().st_size, "sha256": sha256(path)}
    write_atomically(directory / MANIFEST, json.dumps({"format": MANIFEST_FORMAT, "files": files}, indent=1) + "\n")


def manifest_entries(
    directory: Path, required: Iterable[str] = (), ignored: Collection[str] = ()
) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file in the manifest, except `ignored` ones.

    The manifest must name the `required` files and every file in the directory that could be loaded: otherwise a
    truncated manifest would confirm files it never listed. Subdirectories, hidden files and other things that people
    put there (notes, logs, pictures) are not checked.
    """
    path = directory / MANIFEST
    try:
        manifest = parse_json(path.read_bytes())
        files = {str(name): (int(entry["bytes"]), str(entry["sha256"])) for name, entry in manifest["files"].items()}
        version = manifest["format"]
    except FileNotFoundError:
        raise DamagedError(
            f"{directory} has no {MANIFEST}: Dragoman did not finish writing it", code="manifest_missing"
        ) from None
    except (KeyError, TypeError, AttributeError):
        raise DamagedError(f"{path} does not list files with their sizes; restore it from a copy") from None
    except (OSError, ValueError) as error:
        raise DamagedError(f"{path} cannot be read ({error}); restore it from a copy") from None
    if version != MANIFEST_FORMAT:
        raise DamagedError(
            f"{path} has format {render_value(version)}; this version reads format {MANIFEST_FORMAT}; use a newer "
            "Dragoman",
            code="unsupported_format",
        )
    if not files:
        raise DamagedError(f"{path} lists no files; restore it from a copy")
    for name in files:
        if name in ("", "..") or Path(name).name != name or "\0" in name:
            raise DamagedError(
                f"{path} lists {render_value(name)}, which is not a file of {directory}; restore it from a copy"
            )
    for name in required:
        if name not in files:
            raise DamagedError(f"{path} does not list {name}; restore it from a copy", code="manifest_incomplete")
    for file in sorted(directory.iterdir()):
        loadable = file.suffix in LOADED_SUFFIXES and file.is_file() and file.name[0] != "."
        if loadable and file.name not in files and file.name != MANIFEST:
            raise DamagedError(
                f"{file} is not listed in {MANIFEST}: move it elsewhere if it does not belong there; "
                f"otherwise {MANIFEST} was truncated, so restore it from a copy",
                code="manifest_incomplete",
            )
    return {name: entry for name, entry in files.items() if name not in ignored}


def verify_manifest(directory: Path, required: Iterable[str] = (), ignored: Collection[str] = ()) -> None:
    """Raise DamagedError unless every listed file has the size and SHA-256 of the manifest."""
    for name, (size, digest) in manifest_entries(directory, required, ignored).items():
        file = directory / name
        if not file.is_file():
            raise DamagedError(f"{file} is missing, but listed in {MANIFEST}", code="file_missing")
        if file.stat().st_size != size:
            raise DamagedError(
                f"{file} was truncated or changed: it has {file.stat().st_size:,} bytes, but {MANIFEST} says {size:,}"
                f"; {restore_advice(file)}"
            )
        try:
            found = sha256(file)
        except OSError as error:
            raise DamagedError(
                f"{file} cannot be read ({error.strerror}); restore it from a copy", code="file_unreadable"
            ) from None
        if found != digest:
            raise DamagedError(
                f"{file} was changed or damaged: its SHA-256 is not the one in {MANIFEST}; {restore_advice(file)}"
            )


def restore_advice(file: Path) -> str:
    """What to do about a file that differs from its manifest; recipes are edited by hand."""
    if file.suffix == ".toml":
        return "restore it, or train again with the changed recipe"
    return "restore it from a copy"


def format_names(paths: Iterable[Path]) -> str:
    """The names of some files for a message, at most four of them; empty without files."""
    names = sorted(path.name + ("/" if path.is_dir() else "") for path in paths)
    return ", ".join(names[:4]) + (f" and {len(names) - 4:,} more" if len(names) > 4 else "")


def check_new_directory(out: Path) -> None:
    """Raise OutputError unless `out` can become a new directory: it does not exist yet, or is empty."""
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file; choose a new directory", code="not_a_directory")
    if out.exists() and (found := format_names(out.iterdir())):
        raise OutputError(f"{out} already exists and contains {found}; choose a new directory", code="output_exists")


@contextmanager
def staged(path: Path) -> Iterator[Path]:
    """Yield an empty directory to write into; it becomes `path` when the block ends, and is removed if it fails.

    Leftovers of a killed process are cleaned up first; a lock distinguishes them from those of a running process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    staging, lock = sibling(path, "staging"), sibling(path, "lock")
    with lock.open("w") as held:
        try:
            lock_file(held)
            if os.fstat(held.fileno()).st_ino != lock.stat().st_ino:
                raise BlockingIOError  # its last holder removed the file that we have just locked
        except OSError:
            raise DragomanError(
                f"another process is writing {path} right now; wait for it, or choose another directory", code="locked"
            ) from None
        try:
            recover(path)
            staging.mkdir()
            yield staging
            replace_directory(staging, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            lock.unlink(missing_ok=True)


@dataclass(frozen=True)
class HeldLock:
    """A lock file that this process holds."""

    path: Path
    file: FileIO

    def in_place(self) -> bool:
        """Whether the file is still at its path; its directory may have been removed, or replaced by another."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self.file.fileno()))
        except OSError:
            return False


@contextmanager
def exclusive_lock(path: Path, activity: str) -> Iterator[HeldLock]:
    """Hold a lock file for one process at a time; a second process gets an error that names the holder.

    The file stays afterwards: a lock whose file is removed can be held twice. A forked child does not
    inherit it.
    """
    import platform

    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+", buffering=0) as held:
        try:
            lock_for_process(held)
        except OSError:
            held.seek(0)
            holder = held.read().decode(errors="replace") or "another process"
            raise DragomanError(
                f"{holder} is {activity} right now; wait for it, or choose another directory", code="locked"
            ) from None
        with suppress(OSError):  # a full disk has no room for the name, but the lock still works
            held.truncate(0)
            held.write(f"process {os.getpid()} on {platform.node()}".encode())
        yield HeldLock(path, held)


def recover(path: Path) -> None:
    """Clean up after a process that was killed while writing next to `path`."""
    old = sibling(path, "old")
    if old.exists() and not path.exists():
        old.rename(path)  # killed between the two renames of `replace_directory`
    for stale in (old, sibling(path, "staging")):
        if stale.exists():
            shutil.rmtree(stale)


def replace_directory(staging: Path, path: Path) -> None:
    """Rename the new directory to `path`, and only then remove the old one."""
    sync(staging)
    old = sibling(path, "old")
    if path.exists():
        path.rename(old)
    try:
        staging.rename(path)
    except BaseException:  # a second Ctrl-C too: either the new one or the old one is at `path`
        if old.exists() and not path.exists():
            old.rename(path)
        raise
    sync(path.parent)
    with suppress(OSError):
        shutil.rmtree(old)


def sibling(path: Path, suffix: str) -> Path:
    """A hidden name next to `path`, in the same directory and so on the same disk."""
    return path.parent / f".{path.name}.{suffix}"
