"""Read safetensors files into memory; no torch.

The format is a length, a JSON header with each tensor's type, shape and offsets, and the tensors. A file is read, never
mapped: reading a mapped file that somebody truncates ends the process (SIGBUS).
"""

from __future__ import annotations

import errno
import math
import mmap
import os
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from dragoman.errors import DamagedError
from dragoman.files import parse_json

ITEM_BYTES: Final = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 8),
    **dict.fromkeys(("F32", "I32", "U32"), 4),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 2),
    **dict.fromkeys(("I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"), 1),
}
LENGTH_BYTES: Final = 8
ALIGNMENT: Final = 64  # of the first tensor in memory, whatever the length of the header
MAX_HEADER: Final = 100_000_000  # as in the safetensors library


class TensorEntry(NamedTuple):
    """Where a tensor lies in memory."""

    dtype: str
    shape: tuple[int, ...]
    first: int
    last: int


class TensorFile(NamedTuple):
    """The content of a file in private, writable memory, and the tensors in it."""

    memory: mmap.mmap
    tensors: dict[str, TensorEntry]


def read_tensor_file(path: Path) -> TensorFile:
    """Read a safetensors file; DamagedError if it is damaged, or changes while it is read."""
    try:
        with path.open("rb", buffering=0) as file:
            memory, start, skipped = _read(file)
        header = parse_json(memory[skipped + LENGTH_BYTES : start])
        return TensorFile(memory, _check(header, start, len(memory)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise MemoryError(f"there is no memory for the tensors of {path}") from None
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None


def _read(file: BinaryIO) -> tuple[mmap.mmap, int, int]:
    """The whole file in memory, where the tensors start, and the bytes skipped before the file to align them."""
    before = os.fstat(file.fileno())
    length = int.from_bytes(file.read(LENGTH_BYTES), "little")
    if not length <= min(MAX_HEADER, before.st_size - LENGTH_BYTES):
        raise ValueError(f"{before.st_size:,} bytes are too few for its header")
    file.seek(0)
    skipped = -(LENGTH_BYTES + length) % ALIGNMENT
    memory = mmap.mmap(-1, skipped + before.st_size)
    with memoryview(memory) as view:
        done = skipped
        while n := file.readinto(view[done:]) if done < len(view) else 0:  # type: ignore[attr-defined]
            done += n
    after = os.fstat(file.fileno())
    if done < len(memory) or (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ValueError("it changed while it was read")
    return memory, skipped + LENGTH_BYTES + length, skipped


def _check(header: dict[str, Any], start: int, end: int) -> dict[str, TensorEntry]:
    """The tensors of a header; together they must be all that lies from `start` to `end`, without gaps or overlaps."""
    header.pop("__metadata__", None)
    found: dict[str, TensorEntry] = {}
    for name, about in header.items():
        (first, last), shape, dtype = about["data_offsets"], tuple(about["shape"]), str(about["dtype"])
        if not all(type(number) is int and number >= 0 for number in (*shape, first, last)):
            raise ValueError(f"the shape or the offsets of {name[:80]} are not natural numbers")
        if dtype not in ITEM_BYTES:
            raise ValueError(f"{name[:80]} has the unknown type {dtype[:40]}")
        too_large = math.prod(max(size, 1) for size in shape) >= 1 << 60  # one that is empty may claim anything
        if too_large or last - first != ITEM_BYTES[dtype] * math.prod(shape):
            raise ValueError(f"{name[:80]} of shape {shape[:8]} lies from byte {first} to {last}")
        found[name] = TensorEntry(dtype, shape, start + first, start + last)
    at = start
    for name, tensor in sorted(found.items(), key=lambda item: item[1][2:]):
        if tensor.first != at:
            raise ValueError(f"{name[:80]} does not begin where the tensor before it ends")
        at = tensor.last
    if at != end:
        raise ValueError(f"its tensors end at byte {at - start:,} of {end - start:,}")
    return found
