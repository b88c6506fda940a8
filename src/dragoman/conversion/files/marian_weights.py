"""Read Marian's own model files: `.npz`, and `.bin` with float or int8 matrices, as Firefox and Bergamot have.

Both hold named arrays, and the settings as YAML in an array of bytes. Sizes are checked before anything is allocated,
and nothing is unpickled.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch import Tensor

from dragoman.conversion.source_checkpoint import DamagedSourceError, UnsupportedSettingError, read_bytes
from dragoman.errors import ConversionError
from dragoman.values import render_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

SETTINGS: Final = "special:model.yml"
BIN_VERSION, ENCRYPTED_VERSION = 1, 2
MAX_EXPANSION: Final = 16  # size of the arrays / size of the .npz; Marian does not compress, NumPy hardly can
MAX_DIMENSIONS: Final = 8
NPY_START: Final = re.compile(rb"\x93NUMPY(?:\x01\x00(..)|[\x02\x03]\x00(....))", re.DOTALL)
NPY_HEADER: Final = re.compile(
    r"\{'descr': '([<>|=]?[fiuO]\d*)', 'fortran_order': (True|False), 'shape': \(((?:\d+, ?)*\d*)\),? ?\}\s*"
)
# The types of Marian's Type in types.h: class and number of bytes.
PLAIN_TYPES: Final = {
    0x101: "<i1", 0x102: "<i2", 0x104: "<i4", 0x108: "<i8", 0x201: "<u1", 0x202: "<u2", 0x204: "<u4", 0x208: "<u8",
    0x402: "<f2", 0x404: "<f4", 0x408: "<f8",
}  # fmt: skip
# Quantized, in the order of any processor: the numbers of Bergamot's Marian, and those of Marian itself.
INTGEMM_TYPES: Final = {0x4101: "<i1", 0x4102: "<i2", 0x10001: "<i1", 0x10002: "<i2"}


@dataclass(frozen=True)
class MarianFile:
    """The arrays of a model file by name, as float32 where they are weights, and its settings in YAML."""

    tensors: dict[str, Tensor]
    settings: bytes


def is_marian_file(path: Path) -> bool:
    """Whether a file is a model file of Marian, by its name and its first bytes."""
    if path.suffix not in (".npz", ".bin") or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError:
        return False
    return path.suffix == ".npz" or start in (struct.pack("<Q", BIN_VERSION), struct.pack("<Q", ENCRYPTED_VERSION))


def read_marian_file(path: Path) -> MarianFile:
    """Read a `.npz` or `.bin` file."""
    arrays = dict(read_npz(path) if path.suffix == ".npz" else read_bin(path))
    settings = arrays.pop(SETTINGS, None)
    if settings is None:
        raise ConversionError(
            f"{path} has no array {SETTINGS}, where Marian stores the settings of a model; give the file of a model",
            code="not_a_model",
        )
    with np.errstate(over="ignore", invalid="ignore"):  # values that are not finite are rejected when they are used
        tensors = {
            name: torch.from_numpy(array.astype(np.float32) if array.dtype.kind == "f" else array.astype(np.int64))
            for name, array in arrays.items()
        }
    return MarianFile(tensors, settings.tobytes().split(b"\0")[0])


def read_npz(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a `.npz` file: a zip archive with a NumPy file for each."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            size, stored = sum(entry.file_size for entry in entries), path.stat().st_size
            if size > MAX_EXPANSION * stored:
                raise DamagedSourceError(path, f"expands from {stored:,} to {size:,} bytes")
            for entry in entries:
                if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                    raise DamagedSourceError(path, f"uses compression method {entry.compress_type}, unknown to NumPy")
                yield entry.filename.removesuffix(".npy"), parse_npy(path, entry.filename, archive.read(entry))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError, OSError) as error:
        if isinstance(error, ConversionError):
            raise
        raise DamagedSourceError(path, f"is not a readable archive ({error})") from None


def parse_npy(path: Path, name: str, content: bytes) -> NDArray[Any]:
    """The array of a NumPy file of version 1 or later, with numbers only."""
    where = f"has the array {render_value(name)}"
    start = NPY_START.match(content)
    if start is None:
        raise DamagedSourceError(path, f"{where} that is not in NumPy's format")
    first = start.end() + int.from_bytes(start[1] or start[2], "little")
    header = NPY_HEADER.fullmatch(content[start.end() : first].decode("latin-1"))
    if header is not None and "O" in header[1]:
        raise ConversionError(
            f"{path} {where} of Python objects, which NumPy stores as a pickle; loading it could run code from the "
            "file. Marian never writes such arrays: get the file from its source",
            code="unsafe_pickle",
        )
    if header is None:
        raise DamagedSourceError(path, f"{where} with a header that is not NumPy's")
    try:
        dtype = np.dtype(header[1])
    except TypeError:
        raise DamagedSourceError(path, f"{where} of the unknown type {header[1]}") from None
    shape = [int(size) for size in header[3].split(",") if size.strip()]
    if len(shape) > MAX_DIMENSIONS or math.prod(shape) * dtype.itemsize != len(content) - first:
        raise DamagedSourceError(path, f"{where} of shape {shape} and type {header[1]} in {len(content) - first} bytes")
    order: Any = "F" if header[2] == "True" else "C"
    return np.frombuffer(content, dtype, offset=first).reshape(shape, order=order)


class BinReader:
    """Reads numbers and bytes from the front of a `.bin` file."""

    def __init__(self, path: Path, content: bytes) -> None:
        self.path, self.content, self.at = path, content, 0

    def take(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > len(self.content) - self.at:
            raise DamagedSourceError(
                self.path, f"ends at byte {len(self.content):,}, but should have {size:,} bytes from {self.at:,} on"
            )
        self.at += size
        return self.content[self.at - size : self.at]

    def integers(self, count: int, kind: str = "Q") -> tuple[int, ...]:
        """The next `count` integers."""
        return struct.unpack(f"<{count}{kind}", self.take(count * struct.calcsize(kind)))


def read_bin(path: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a `.bin` file: headers, names, shapes, padding, then the data of each array."""
    content = read_bytes(path)
    reader = BinReader(path, content)
    (version,) = reader.integers(1)
    if version == ENCRYPTED_VERSION:
        raise UnsupportedSettingError(f"{path} is encrypted; import the model that it was made from")
    if version != BIN_VERSION:
        raise DamagedSourceError(path, f"does not start with the version of Marian's format, 1, but with {version}")
    (count,) = reader.integers(1)
    if count > len(content) // 32:  # checked before Python makes a list of them
        raise DamagedSourceError(path, f"claims to have {count:,} arrays in {len(content):,} bytes")
    headers = [reader.integers(4) for _ in range(count)]
    names = [reader.take(header[0]).rstrip(b"\0").decode("utf-8", errors="replace") for header in headers]
    shapes = []
    for name, (_, _, dimensions, _) in zip(names, headers, strict=True):
        if dimensions > MAX_DIMENSIONS:
            raise DamagedSourceError(path, f"has the array {render_value(name)} of {dimensions} dimensions")
        shapes.append(reader.integers(dimensions, "i"))
    reader.take(reader.integers(1)[0])  # the data start at a multiple of 256
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        yield name, parse_item(path, name, kind, shape, reader.take(size))


def parse_item(path: Path, name: str, kind: int, shape: tuple[int, ...], data: bytes) -> NDArray[Any]:
    """An array of a `.bin` file; its data may be followed by padding."""
    where = f"has the array {render_value(name)}"
    if kind not in PLAIN_TYPES and kind not in INTGEMM_TYPES:
        raise UnsupportedSettingError(
            f"{path} {where} of type {kind:#x}, which is packed for one kind of processor; import the .npz that it was "
            "made from, or a model of type intgemm8"
        )
    dtype = np.dtype(PLAIN_TYPES.get(kind) or INTGEMM_TYPES[kind])
    elements = math.prod(shape)
    scaled = kind in INTGEMM_TYPES
    if min(shape, default=1) < 0 or elements * dtype.itemsize + 4 * scaled > len(data):
        raise DamagedSourceError(path, f"{where} of shape {[*shape]} in {len(data):,} bytes")
    values = np.frombuffer(data, dtype, elements)
    if not scaled:
        return values.reshape(shape)
    (factor,) = struct.unpack_from("<f", data, elements * dtype.itemsize)
    if not (math.isfinite(factor) and factor > 0 and len(shape) == 2):
        raise DamagedSourceError(path, f"{where} of shape {[*shape]} with the scale {factor}")
    # The inputs of an output are stored side by side, except in embeddings, whose rows are.
    matrix = values.reshape(shape) if "Wemb" in name else values.reshape(shape[::-1]).T
    return matrix.astype(np.float32) / np.float32(factor)
