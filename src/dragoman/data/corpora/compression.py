"""Read files that may be compressed: .gz, .xz and .zst, recognized by their first bytes."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

from dragoman.data.corpora.document_formats import document_kind
from dragoman.errors import DataError, MissingExtraError
from dragoman.values import close_matches, plural

OpenFile = Callable[[Path], IO[bytes]]  # opens a file, possibly hashing it while it is read

BLOCK_BYTES = 1 << 20
UTF16 = (b"\xff\xfe", b"\xfe\xff")
DAMAGE = (OSError, EOFError, zlib.error, lzma.LZMAError)
COMPRESSIONS = {b"\x1f\x8b": ".gz", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"BZh91AY": "compressed with bzip2; decompress it with bunzip2 first",
    b"\xff\xfe": "UTF-16; convert it with: iconv -f UTF-16 -t UTF-8",
    b"\xfe\xff": "UTF-16; convert it with: iconv -f UTF-16 -t UTF-8",
}


def open_binary(path: Path) -> IO[bytes]:
    """Open a file to read bytes."""
    return path.open("rb")


def read_blocks(path: Path, open_file: OpenFile = open_binary, utf16: bool = False) -> Iterator[bytes]:
    """The bytes of a file, decompressed if its first bytes show that it is compressed; UTF-16 only with `utf16`."""
    check_file(path)
    with open_file(path) as raw:
        yield from read_stream(path, raw, path.stat().st_size, utf16)


def read_stream(path: Path, raw: IO[bytes], size: int | None = None, utf16: bool = False) -> Iterator[bytes]:
    """`read_blocks` of an open file; `path` and `size` are for messages."""
    start = raw.read(8)
    raw.seek(0)
    compression = next((name for magic, name in COMPRESSIONS.items() if start.startswith(magic)), "")
    if not (utf16 and start.startswith(UTF16)):
        check_text_format(path, start)
    if start and path.suffix in COMPRESSIONS.values() and path.suffix != compression:
        raise DataError(
            f"{path} has the suffix {path.suffix}, but its first bytes ({start[:4].hex(' ')}) are not those of a "
            f"{path.suffix} file; rename it to match its content",
            code="wrong_file_format",
        )
    done = 0
    try:
        for block in decompress(raw, compression):
            done = raw.tell()
            yield block
        while raw.read(BLOCK_BYTES):  # bytes after the end of the archive are part of the file too
            pass
    except DAMAGE as error:
        total = "" if size is None else f" of {size:,}"
        raise DataError(
            f"{path} is damaged or truncated after {plural(done, 'byte')}{total} ({error}); "
            "download or compress it again",
            code="file_damaged",
        ) from None


def check_text_format(path: Path, start: bytes) -> None:
    """Reject files whose first bytes show another format."""
    if kind := document_kind(path, start):
        raise DataError(
            f"{path} is {kind}, not plain text; save it as plain text (UTF-8), or give the file to dragoman translate",
            code="unsupported_format",
        )
    for magic, what in OTHER_FORMATS.items():
        if start.startswith(magic):
            raise DataError(f"{path} is {what}", code="wrong_file_format")


def decompress(raw: IO[bytes], compression: str) -> Iterator[bytes]:
    """Blocks of at most about a megabyte from an open file; all blocks before any damage precede the error."""
    match compression:
        case ".zst":
            yield from decompress_zstd(raw)
            return
        case ".gz":
            reader: Callable[[], Any] = partial(gzip.GzipFile, fileobj=raw)
        case ".xz":
            reader = partial(lzma.LZMAFile, raw)
        case _:
            while block := raw.read(BLOCK_BYTES):
                yield block
            return
    stream, position = reader(), 0
    try:
        while block := stream.read(BLOCK_BYTES):
            position += len(block)
            yield block
    except DAMAGE:
        raw.seek(0)  # retry in smaller reads: `read` returns nothing of a block that it cannot fill
        yield from read_until_damage(reader(), position)
        raise


def read_until_damage(stream: Any, skipped: int) -> Iterator[bytes]:
    """The bytes of a stream up to the failure, without the first `skipped`."""
    with suppress(*DAMAGE):
        while data := stream.read1(BLOCK_BYTES):
            if len(data) > skipped:
                yield data[skipped:]
            skipped = max(0, skipped - len(data))


def decompress_zstd(raw: IO[bytes]) -> Iterator[bytes]:
    """Zstandard frames one after the other; the library's reader would accept a truncated file."""
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("zstandard", "zstd", "reading .zst files") from None
    frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
    while data := raw.read(1 << 14):
        while data:
            if frame.eof:
                frame = zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
            try:
                block = frame.decompress(data)
            except zstandard.ZstdError as error:
                raise OSError(str(error)) from None
            data = frame.unused_data
            if block:
                yield block
    if not frame.eof:
        raise EOFError("the last frame is incomplete")


def check_file(path: Path) -> None:
    """Reject anything but a readable regular file."""
    if path.is_dir():
        raise DataError(f"{path} is a directory; expected a file with a sentence per line", code="not_a_file")
    if path.is_symlink() and not path.exists():
        raise DataError(f"{path} is a broken link to {path.readlink()}", code="file_missing")
    if not path.exists():
        near = sorted(entry.name for entry in path.parent.iterdir()) if path.parent.is_dir() else []
        close = close_matches(path.name, near)
        hint = f"; did you mean {path.parent / close[0]}?" if close else ""
        raise DataError(f"there is no file {path}{hint}", code="file_missing")
    if not path.is_file():
        raise DataError(f"{path} is not a regular file; write the text of a pipe to a file first", code="not_a_file")
    try:
        path.open("rb").close()
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}", code="file_unreadable") from None
