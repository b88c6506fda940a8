"""Large files in blocks of lines: what formats need to read them with memory that does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final, TypeVar

from dragoman.documents.encoding import Encoding, decode, find_mark
from dragoman.errors import DocumentError

Read = TypeVar("Read")
CHUNK_BYTES: Final = 1 << 20  # about 30 blocks of sentences that are translated at once


@dataclass(frozen=True)
class LineBlock:
    """Whole lines of a file: their bytes, where they begin, and the number of the first one."""

    data: bytes
    at: int = 0
    first_line: int = 1

    def decode(self, name: str) -> tuple[str, Encoding]:
        """Their text."""
        return decode(self.data, name, at=self.at)


def read_line_chunks(path: Path, read: Callable[[LineBlock, str], Read]) -> Iterator[Read] | None:
    """The blocks of a file in UTF-8, each read with the name of the file; None if it is in UTF-16 or UTF-32."""
    with open_document(path) as file:
        encoding = find_mark(file.read(4))[1]
    return (read(block, str(path)) for block in _blocks(path)) if encoding in ("", "utf-8") else None


def _blocks(path: Path) -> Iterator[LineBlock]:
    at, number = 0, 1
    with open_document(path) as file:
        while data := file.read(CHUNK_BYTES):
            data += file.readline()
            yield LineBlock(data, at, number)
            at, number = at + len(data), number + data.count(b"\n")


def open_document(path: Path) -> BufferedReader:
    """Open a document to read its bytes."""
    if path.is_dir():
        raise DocumentError(f"{path} is a directory; give a file", code="not_a_file")
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise DocumentError(f"there is no file {path}", code="file_missing") from None
    except OSError as error:
        raise DocumentError(f"cannot read {path}: {error.strerror}", code="file_unreadable") from None
