"""Read files of `torch.save` without PyTorch's unpickler.

Since PyTorch 1.6, such a file is a zip archive with a pickle and an uncompressed entry for each storage. Before, it was
a sequence of pickles followed by the storages.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import torch
from torch import Tensor

from dragoman.conversion.files.pickle_objects import (
    ITEM_BYTES,
    BadPickleError,
    Storage,
    StoredTensor,
    UnsafePickleError,
)
from dragoman.conversion.files.pickle_reader import PickleReader
from dragoman.conversion.source_checkpoint import DamagedSourceError
from dragoman.errors import ConversionError
from dragoman.values import render_value

MAX_PICKLE_BYTES: Final = 64 << 20
MAX_SHARING: Final = 8  # total size of the tensors / file size; tied embeddings share elements
ZIP_SIGNATURE: Final = b"PK\x03\x04"
LEGACY_MAGIC: Final = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL: Final = 1001
DTYPES: Final = {
    "float64": torch.float64, "float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16,
    "int64": torch.int64, "int32": torch.int32, "int16": torch.int16, "int8": torch.int8, "uint8": torch.uint8,
    "bool": torch.bool,
}  # fmt: skip


class TorchFile:
    """A file of `torch.save`; `content` is its value, with a `StoredTensor` for each tensor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.bytes = path.stat().st_size
            with path.open("rb") as file:
                zipped = file.read(len(ZIP_SIGNATURE)) == ZIP_SIGNATURE
                file.seek(0)
                self.storages: ZipStorages | LegacyStorages = (ZipStorages if zipped else LegacyStorages)(file)
                self.content: Any = self.storages.content
        except FileNotFoundError:
            raise ConversionError(f"{path} is missing; copy the whole model", code="file_missing") from None
        except OSError as error:
            raise ConversionError(f"{path} cannot be read: {error.strerror}", code="file_unreadable") from None
        except UnsafePickleError as error:
            raise ConversionError(
                f"{path} refers to {render_value(error.name)}, which is neither a tensor nor a plain value; loading it "
                "could run code from the file. If you trust the file, load it with its own toolkit and save it again "
                "with tensors and plain values only",
                code="unsafe_pickle",
            ) from None
        except BadPickleError as error:
            raise DamagedSourceError(path, str(error)) from None

    def tensors(self, table: Any) -> dict[str, Tensor] | None:
        """Load the tensors of a table of the content, by name; None if it holds anything else."""
        if not isinstance(table, Mapping) or not all(
            isinstance(name, str) and isinstance(tensor, StoredTensor) for name, tensor in table.items()
        ):
            return None
        described = sum(math.prod(tensor.shape) * ITEM_BYTES[tensor.storage.dtype] for tensor in table.values())
        if described > MAX_SHARING * self.bytes:
            raise DamagedSourceError(
                self.path, f"describes tensors of {described:,} bytes, far more than its {self.bytes:,} bytes"
            )
        loaded: dict[Storage, Tensor] = {}
        try:
            with self.path.open("rb") as file:
                needed = {tensor.storage for tensor in table.values()}
                for storage, content in self.storages.read(file, needed):
                    loaded[storage] = as_elements(content, storage)
        except BadPickleError as error:
            raise DamagedSourceError(self.path, str(error)) from None
        except OSError as error:
            raise ConversionError(f"{self.path} cannot be read: {error.strerror}", code="file_unreadable") from None
        return {
            name: loaded[tensor.storage].as_strided(tensor.shape, tensor.stride, tensor.offset)
            for name, tensor in table.items()
        }


def as_elements(content: bytearray, storage: Storage) -> Tensor:
    """View the bytes of a storage as a tensor of its elements."""
    dtype = DTYPES[storage.dtype]
    if len(content) != storage.size * ITEM_BYTES[storage.dtype]:
        raise BadPickleError(f"has {len(content):,} bytes for {storage.size:,} elements of type {storage.dtype}")
    return torch.frombuffer(content, dtype=dtype) if content else torch.empty(0, dtype=dtype)


class ZipStorages:
    """A zip archive: NAME/data.pkl, and NAME/data/KEY for each storage."""

    def __init__(self, file: IO[bytes]) -> None:
        archive = open_archive(file)
        entries = archive.infolist()
        names = {entry.filename: entry for entry in entries}
        pickles = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
        if len(pickles) != 1 or len(names) != len(entries):
            raise BadPickleError("is a zip archive, but not a PyTorch file")
        self.prefix = pickles[0].removesuffix("data.pkl")
        total = sum(entry.file_size for entry in entries)
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
            raise BadPickleError("has compressed or encrypted entries, which PyTorch does not write")
        if total > file.seek(0, io.SEEK_END) or any(entry.file_size != entry.compress_size for entry in entries):
            raise BadPickleError(f"claims entries of {total:,} bytes, more than the size of the file")
        if f"{self.prefix}byteorder" in names and read_entry(archive, f"{self.prefix}byteorder", 16) != b"little":
            raise BadPickleError("was written on a machine with another byte order; save it again on this one")
        content = read_entry(archive, pickles[0], MAX_PICKLE_BYTES)
        self.content = PickleReader(io.BytesIO(content)).read()

    def read(self, file: IO[bytes], storages: Iterable[Storage]) -> Iterator[tuple[Storage, bytearray]]:
        """Yield each storage with its bytes."""
        archive = open_archive(file)
        for storage in storages:
            size = storage.size * ITEM_BYTES[storage.dtype]
            yield storage, read_entry(archive, f"{self.prefix}data/{storage.key}", size)


def open_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """Open a zip archive."""
    try:
        return zipfile.ZipFile(file)
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OverflowError) as error:
        raise BadPickleError(f"is not a complete zip archive ({type(error).__name__})") from None


def read_entry(archive: zipfile.ZipFile, name: str, limit: int) -> bytearray:
    """Read an entry of an archive and verify its checksum."""
    try:
        entry = archive.getinfo(name)
        if entry.file_size > limit:
            raise BadPickleError(f"has {entry.file_size:,} bytes in {render_value(name)}; expected at most {limit:,}")
        content = bytearray(archive.read(entry))
    except KeyError:
        raise BadPickleError(f"has no entry {render_value(name)}") from None
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise BadPickleError(f"is damaged in {render_value(name)} ({type(error).__name__})") from None
    return content


class LimitedStream:
    """A file that seems to end after `limit` bytes; reads never allocate more than what is left."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        self.file = file
        self.end = min(limit, file.seek(0, io.SEEK_END))
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes."""
        left = self.end - self.file.tell()
        return self.file.read(left if size < 0 else min(size, left))

    def readline(self) -> bytes:
        """Read a line, or the rest of the file."""
        return self.file.readline(max(0, self.end - self.file.tell()))

    def tell(self) -> int:
        """The position in the file."""
        return self.file.tell()


class LegacyStorages:
    """The format before PyTorch 1.6: pickles of magic number, version, machine, value and keys; then the storages."""

    def __init__(self, file: IO[bytes]) -> None:
        stream: Any = LimitedStream(file, MAX_PICKLE_BYTES)
        try:
            if PickleReader(stream).read() != LEGACY_MAGIC or PickleReader(stream).read() != LEGACY_PROTOCOL:
                raise BadPickleError("is not a PyTorch file")
        except UnsafePickleError:
            raise
        except BadPickleError:
            raise BadPickleError("is not a PyTorch file") from None
        machine = PickleReader(stream).read()
        if not isinstance(machine, dict) or machine.get("little_endian") is not True:
            raise BadPickleError("was written on a machine with another byte order; save it again on this one")
        reader = PickleReader(stream)
        self.content = reader.read()
        keys = PickleReader(stream).read()
        if not isinstance(keys, list) or not all(isinstance(key, str) and key in reader.storages for key in keys):
            raise BadPickleError("has an invalid list of storages")
        self.positions: dict[Storage, int] = {}
        position, end = file.tell(), file.seek(0, io.SEEK_END)
        for key in keys:
            storage = reader.storages[key]
            self.positions[storage] = position
            position += 8 + storage.size * ITEM_BYTES[storage.dtype]
        if position > end or len(self.positions) != len(keys):
            raise BadPickleError(f"has {end:,} bytes, but its tensors need {position:,}")

    def read(self, file: IO[bytes], storages: Iterable[Storage]) -> Iterator[tuple[Storage, bytearray]]:
        """Yield each storage with its bytes."""
        for storage in storages:
            if storage not in self.positions:
                raise BadPickleError("has a tensor whose elements are not in the file")
            file.seek(self.positions[storage])
            if int.from_bytes(file.read(8), "little") != storage.size:
                raise BadPickleError("has a storage whose size does not match its tensors")
            yield storage, bytearray(file.read(storage.size * ITEM_BYTES[storage.dtype]))
