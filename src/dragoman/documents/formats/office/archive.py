"""Zip archives: read with limits, and written with some parts replaced."""

from __future__ import annotations

import copy
import io
import shutil
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from dragoman.errors import DocumentError

MAX_PARTS: Final = 20_000
MAX_PART_BYTES: Final = 256 << 20  # of one part that is read
MAX_READ_BYTES: Final = 512 << 20  # of all parts that are read; pictures are not
MAX_TOTAL_BYTES: Final = 4 << 30  # of all parts together
MAX_RATIO: Final = 250  # above RATIO_BYTES, of a part and of all that are read; XML compresses by 10 to 200
RATIO_BYTES: Final = 8 << 20
COPIED_BYTES: Final = 1 << 20  # at a time
ENCRYPTED: Final = 0x1  # general purpose bit flag
ZIP64_EXTRA: Final = 1

METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # those that office formats permit
BAD_ZIP: Final = (  # what zipfile raises for damaged archives
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError
)  # fmt: skip


@dataclass
class Archive:
    """A zip archive in memory. Parts are read when they are needed, and nothing is extracted to the disk."""

    data: bytes
    name: str
    parts: Mapping[str, zipfile.ZipInfo]
    checked: set[str] = field(default_factory=set)  # parts that were read or are going to be, and their sizes
    size: int = 0
    packed: int = 0

    def __contains__(self, part: str) -> bool:
        return part in self.parts

    def read(self, part: str) -> bytes:
        """The content of a part."""
        info = self.parts.get(part)
        if info is None:
            raise DocumentError(f"{self.name} is damaged: it has no {part}")
        if info.file_size > MAX_PART_BYTES:
            raise unsafe(self.name, f"{part} has {info.file_size:,} bytes; the limit is {MAX_PART_BYTES:,}")
        self.check([part])
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as archive:
                return read_entry(archive, info)
        except BAD_ZIP as error:
            raise self._damaged(info, error) from None

    def check(self, parts: Iterable[str]) -> None:
        """Raise if these parts and those that were read before are too large together, before they are unpacked."""
        for part in parts:
            if part in self.parts and part not in self.checked:
                self.checked.add(part)
                self.size += self.parts[part].file_size
                self.packed += self.parts[part].compress_size
        if self.size > MAX_READ_BYTES:
            raise unsafe(self.name, f"its text has {self.size:,} bytes when unpacked; the limit is {MAX_READ_BYTES:,}")
        packed = min(self.packed, len(self.data))
        if self.size > RATIO_BYTES and self.size > MAX_RATIO * packed:
            raise unsafe(self.name, f"its text grows from {packed:,} to {self.size:,} bytes when it is unpacked")

    def _damaged(self, info: zipfile.ZipInfo, error: Exception) -> DocumentError:
        return DocumentError(f"{self.name} is damaged: cannot read {info.filename}: {error}")

    def replace(self, changed: Mapping[str, bytes]) -> bytes:
        """The archive with some parts replaced: the same entries, in their order, with their times and compression."""
        if not changed:
            return self.data
        written = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self.data)) as old, zipfile.ZipFile(written, "w") as archive:
            for info in self.parts.values():
                entry = copy.copy(info)
                entry.extra = without_zip64(info.extra)
                if info.filename in changed:
                    archive.writestr(entry, changed[info.filename], info.compress_type)
                    continue
                try:
                    with old.open(info) as part, archive.open(entry, "w") as copied:
                        shutil.copyfileobj(part, copied, COPIED_BYTES)
                except BAD_ZIP as error:
                    raise self._damaged(info, error) from None
        return written.getvalue()


def read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """The content of an entry, never more than its size in the directory: `ZipFile.read` unpacks all that there is."""
    with archive.open(info) as part:
        return part.read(info.file_size)


def open_archive(data: bytes, name: str) -> Archive:
    """Check a zip archive and its limits without unpacking it."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except BAD_ZIP as error:
        raise DocumentError(f"{name} is damaged: not a complete zip archive ({error}); save it again") from None
    if len(entries) > MAX_PARTS:
        raise unsafe(name, f"it has {len(entries):,} parts; the limit is {MAX_PARTS:,}")
    parts: dict[str, zipfile.ZipInfo] = {}
    end = -1
    for info in sorted(entries, key=lambda info: info.header_offset):
        if info.flag_bits & ENCRYPTED:
            raise encrypted(name)
        if info.compress_type not in METHODS:
            raise DocumentError(f"{name} is damaged: {info.filename!r} is compressed in a way that is not permitted")
        if info.header_offset < end:
            raise unsafe(name, f"the part {info.filename!r} overlaps another")
        end = info.header_offset + info.compress_size
        if info.file_size > RATIO_BYTES and info.file_size > MAX_RATIO * info.compress_size:
            raise unsafe(
                name, f"the part {info.filename!r} grows from {info.compress_size:,} to {info.file_size:,} bytes"
            )
    for info in entries:
        if info.filename in parts:
            raise unsafe(name, f"it has two parts called {info.filename!r}")
        if is_unsafe(info.filename):
            raise unsafe(name, f"it has a part called {info.filename!r}")
        parts[info.filename] = info
    if (total := sum(info.file_size for info in entries)) > MAX_TOTAL_BYTES:
        raise unsafe(name, f"it has {total:,} bytes when unpacked; the limit is {MAX_TOTAL_BYTES:,}")
    return Archive(data, name, parts)


def is_unsafe(part: str) -> bool:
    """Whether a name leads out of the archive."""
    return part.startswith("/") or "\\" in part or ".." in PurePosixPath(part).parts or ":" in part.split("/")[0]


def without_zip64(extra: bytes) -> bytes:
    """Extra fields of an entry without its long sizes, which are written again if they are needed."""
    kept, place = b"", 0
    while place + 4 <= len(extra):
        kind = int.from_bytes(extra[place : place + 2], "little")
        end = place + 4 + int.from_bytes(extra[place + 2 : place + 4], "little")
        if kind != ZIP64_EXTRA:
            kept += extra[place:end]
        place = end
    return kept


def unsafe(name: str, reason: str) -> DocumentError:
    """The error for a file that could do harm."""
    return DocumentError(
        f"{name} is not safe to read: {reason}; open it in an office suite and save it again", code="unsafe_document"
    )


def encrypted(name: str) -> DocumentError:
    """The error for a file with a password."""
    return DocumentError(f"{name} is encrypted; save it without a password first", code="encrypted_document")
