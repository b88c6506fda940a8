"""Files on disks and in object stores: paths, and URLs that fsspec or pyarrow can open."""

from __future__ import annotations

import glob
import json
import os
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any

from dragoman.documents.detect import detect_file
from dragoman.errors import DataError, DocumentError, MissingExtraError, OutputError
from dragoman.files import parse_json, sync

FOLDER = ".dragoman"  # in the output directory: records, parts, and files that are being written
TEMPORARY = f"{FOLDER}/new"
VERSION_KEYS = ("size", "mtime", "ETag", "LastModified", "last_modified", "generation")  # of fsspec's info()
MAGIC = "*?["


@dataclass(frozen=True)
class InputFile:
    """A file to read, the name of its output, and what tells its versions apart."""

    url: str
    name: str  # relative to the output directory, with slashes
    size: int
    version: str


def is_url(name: str) -> bool:
    """Whether a name is a URL, such as s3://bucket/key."""
    return "://" in name


def file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system of a path or URL, and the path in it; pyarrow opens what fsspec has no driver for."""
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise MissingExtraError("fsspec", "ray", "reading files for a cluster") from None
    try:
        found, path = url_to_fs(url if is_url(url) else os.path.abspath(url))  # noqa: PTH100 - a glob is no path
        return found, path
    except (ImportError, ValueError) as error:  # no driver for this kind of URL
        with suppress(ImportError, ValueError, OSError):
            from fsspec.implementations.arrow import ArrowFSWrapper
            from pyarrow.fs import FileSystem

            arrow, path = FileSystem.from_uri(url)
            return ArrowFSWrapper(arrow), path
        raise DataError(f"cannot open {url}: {error}", code="unsupported_url") from None


def find_inputs(words: Sequence[str]) -> list[InputFile]:
    """The files of paths, URLs, patterns and folders, in order, each with the name of its output.

    Files of a pattern or a folder keep their path below its fixed part; two files must not have the same name.
    """
    found: dict[str, InputFile] = {}
    for word in words:
        for one in find_files(word):
            other = found.setdefault(one.name, one)
            if other is not one:
                raise DataError(
                    f"{other.url} and {one.url} would both be written to {one.name}; give them in two commands",
                    code="duplicate_file",
                )
    return list(found.values())


def find_files(word: str) -> list[InputFile]:
    """The files of one argument."""
    files, path = file_system(word)
    if any(sign in path for sign in MAGIC) and not files.exists(path):
        base = fixed_part(path)
        infos = files.glob(path, detail=True)
        if not infos:
            raise DataError(f"no file matches {word}", code="file_missing")
    elif files.isdir(path):
        base, infos = path, files.find(path, detail=True)
    elif files.exists(path):
        base, infos = str(PurePosixPath(path).parent), {path: files.info(path)}
    else:
        raise DataError(f"there is no file {word}", code="file_missing")
    found = []
    for one, info in sorted(infos.items()):
        name = PurePosixPath(one).relative_to(base)
        if info["type"] == "directory" or any(part.startswith(".") for part in name.parts):
            continue
        version = json.dumps({key: str(info[key]) for key in VERSION_KEYS if key in info})
        url = files.unstrip_protocol(one) if is_url(word) else one
        found.append(InputFile(url, name.as_posix(), int(info["size"] or 0), version))
    if not found:
        raise DataError(f"there are no files in {word}", code="no_data")
    return found


def fixed_part(pattern: str) -> str:
    """The folder of a pattern above its first wildcard."""
    parts = PurePosixPath(pattern).parts
    first = next(i for i, part in enumerate(parts) if any(sign in part for sign in MAGIC))
    return str(PurePosixPath(*parts[:first]))


def is_rows(word: str) -> bool:
    """Whether an argument names files of rows, and not documents: URLs, patterns, text, JSON lines and Parquet."""
    if is_url(word) or (glob.has_magic(word) and not Path(word).exists()):
        return True
    if Path(word).is_dir():
        return False
    try:
        found = detect_file(Path(word)) if Path(word).is_file() else None
    except DocumentError:
        return False
    return found is None or found.name in ("text", "jsonl")


def open_input(url: str) -> IO[bytes]:
    """Open a file to read bytes."""
    files, path = file_system(url)
    try:
        opened: IO[bytes] = files.open(path, "rb")
    except OSError as error:
        raise DataError(f"cannot read {url}: {error.strerror or error}", code="file_unreadable") from None
    return opened


@dataclass(frozen=True)
class OutputDirectory:
    """A directory to write, at a path or URL; its files appear complete or not at all."""

    url: str

    @cached_property
    def _root(self) -> tuple[Any, str]:
        return file_system(self.url)

    def __getstate__(self) -> str:
        """The URL alone: an open file system does not travel to other processes."""
        return self.url

    def __setstate__(self, url: str) -> None:
        object.__setattr__(self, "url", url)

    @property
    def is_local(self) -> bool:
        """Whether this is a directory of a mounted disk."""
        return not is_url(self.url)

    def place(self, name: str) -> str:
        """The path of a file in its file system."""
        return f"{self._root[1].rstrip('/')}/{name}"

    def size(self, name: str) -> int | None:
        """The size of a file in bytes; None if it does not exist."""
        try:
            return int(self._root[0].info(self.place(name))["size"])
        except FileNotFoundError:
            return None

    def read(self, name: str) -> IO[bytes]:
        """Open a file to read bytes."""
        opened: IO[bytes] = self._root[0].open(self.place(name), "rb")
        return opened

    @contextmanager
    def write(self, name: str, *, sync_name: bool = True) -> Iterator[IO[bytes]]:
        """Write a file, which appears when the block ends without an error.

        Without `sync_name` it may be missing if the machine stops, but never incomplete.
        """
        files, path = self._root[0], self.place(name)
        folder, temporary = path.rpartition("/")[0], self.place(f"{TEMPORARY}/{uuid.uuid4().hex}")
        try:
            for needed in (folder, self.place(TEMPORARY)):
                files.makedirs(needed, exist_ok=True)
            try:
                with files.open(temporary, "wb") as file:
                    yield file
                    if self.is_local:
                        file.flush()
                        os.fsync(file.fileno())
                if self.is_local:
                    Path(temporary).replace(path)
                    if sync_name:
                        sync(Path(folder))
                else:
                    files.mv(temporary, path)
            finally:
                with suppress(OSError):
                    if files.exists(temporary):
                        files.rm_file(temporary)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}; choose another output") from None

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file."""
        with self.write(name) as file:
            file.write((json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode())

    def read_json(self, name: str) -> Any:
        """The content of a JSON file; None if it is missing or damaged."""
        try:
            with self.read(name) as file:
                return parse_json(file.read())
        except (OSError, ValueError):
            return None

    def remove(self, name: str) -> None:
        """Remove a folder and what is in it, if it exists."""
        with suppress(FileNotFoundError):
            self._root[0].rm(self.place(name), recursive=True)
