"""Weights in 8 bits: matrices as int8 with a scale per row, in files of a limited size.

A matrix `NAME` is stored as int8 `NAME` and float32 `NAME.row_scales`: row r is `NAME[r] * row_scales[r]`. The C engine
computes with these numbers. A tensor that is too large for a file is stored in parts, each called `NAME@ROW` after its
first row. All other tensors stay float32.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.arrays import FloatArray
from dragoman.errors import OutputError

MAX_FILE_BYTES: Final = 8_000_000
SCALES: Final = ".row_scales"
PART: Final = re.compile(r"(.+)@(\d{1,18})")
HEADER_BYTES: Final = 200  # reserved in a file for the description of each tensor, and for the header itself
FLOAT_TABLES: Final = ("_positions.table", "key_table", "value_table")  # position codes, which are small
Arrays = Mapping[str, NDArray[Any]]


class Int8Matrix(NamedTuple):
    """A matrix whose row r is `values[r] * scales[r]`."""

    values: NDArray[np.int8]
    scales: FloatArray

    def to_float(self) -> FloatArray:
        """The matrix in float32."""
        return self.values * self.scales[:, None]


def quantize_matrix(matrix: FloatArray) -> Int8Matrix:
    """Round each row to 255 levels, as `quantize` in native/translate/kernels/linear.c does."""
    largest = np.abs(matrix).max(1, initial=0.0).astype(np.float32)
    factors = np.divide(np.float32(127), largest, out=np.zeros_like(largest), where=largest > np.float32(1e-30))
    return Int8Matrix(np.rint(matrix * factors[:, None]).astype(np.int8), largest / np.float32(127))


def is_quantized(name: str, tensor: NDArray[Any]) -> bool:
    """Whether a tensor is stored in int8: every matrix, except tables of position codes."""
    return tensor.ndim == 2 and tensor.dtype == np.float32 and not name.endswith(FLOAT_TABLES)


def quantize_weights(weights: Arrays) -> dict[str, NDArray[Any]]:
    """The tensors to store for float32 weights."""
    stored: dict[str, NDArray[Any]] = {}
    for name, tensor in weights.items():
        if is_quantized(name, tensor):
            stored[name], stored[name + SCALES] = quantize_matrix(tensor)
        else:
            stored[name] = tensor
    return stored


def split_tensors(tensors: Arrays, limit: int = MAX_FILE_BYTES) -> list[dict[str, NDArray[Any]]]:
    """The tensors in groups that each fit into a file of `limit` bytes; the first file that has room takes a tensor."""
    files: list[dict[str, NDArray[Any]]] = []
    room: list[int] = []
    for name, tensor in _parts(tensors, limit - 2 * HEADER_BYTES):
        needed = tensor.nbytes + HEADER_BYTES
        index = next((i for i, left in enumerate(room) if left >= needed), len(files))
        if index == len(files):
            files.append({})
            room.append(limit - HEADER_BYTES)
        files[index][name] = tensor
        room[index] -= needed
    return files


def _parts(tensors: Arrays, limit: int) -> Iterator[tuple[str, NDArray[Any]]]:
    """The tensors, with those over `limit` bytes cut between rows, largest first."""
    found: list[tuple[str, NDArray[Any]]] = []
    for name, tensor in tensors.items():
        if tensor.nbytes <= limit:
            found.append((name, tensor))
            continue
        rows = limit // max(1, tensor[:1].nbytes)
        if not rows:
            raise OutputError(
                f"a row of {name} has {tensor[:1].nbytes:,} bytes, more than a file of {limit:,} can hold"
            )
        found += [(f"{name}@{first}", tensor[first : first + rows]) for first in range(0, len(tensor), rows)]
    yield from sorted(found, key=lambda item: -item[1].nbytes)


def join_parts(tensors: Arrays) -> dict[str, NDArray[Any]]:
    """The tensors with their parts put together; ValueError if a part is missing or of another shape."""
    whole = {name: tensor for name, tensor in tensors.items() if "@" not in name}
    parts: dict[str, dict[int, NDArray[Any]]] = {}
    for name, tensor in tensors.items():
        if "@" in name:
            found = PART.fullmatch(name)
            if found is None or not tensor.ndim:
                raise ValueError(f"{name[:80]} is not a part of a tensor")
            parts.setdefault(found[1], {})[int(found[2])] = tensor
    for name, by_row in parts.items():
        rows = 0
        for first in sorted(by_row):
            if first != rows or name in whole:
                raise ValueError(
                    f"rows {min(rows, first)} to {max(rows, first)} of {name[:80]} are missing or repeated"
                )
            rows += len(by_row[first])
        whole[name] = np.concatenate([by_row[first] for first in sorted(by_row)])
    return whole


def pair_scales(tensors: Arrays) -> tuple[dict[str, NDArray[Any]], dict[str, Int8Matrix]]:
    """The float32 tensors, and the matrices in int8; ValueError if a matrix and its scales do not match."""
    matrices: dict[str, Int8Matrix] = {}
    for name, tensor in tensors.items():
        if tensor.dtype == np.int8:
            scales = tensors.get(name + SCALES)
            if tensor.ndim != 2 or scales is None or scales.shape != tensor.shape[:1] or scales.dtype != np.float32:
                raise ValueError(f"{name[:80]} has no scale for each of its rows")
            matrices[name] = Int8Matrix(tensor, scales)
    used = {name + SCALES for name in matrices}
    return {name: t for name, t in tensors.items() if name not in used and name not in matrices}, matrices


def weight_file_names(names: Iterable[str], first: str) -> list[str]:
    """The files of weights among some names: `first`, then `model-2.safetensors` and so on, in order."""
    stem, _, suffix = first.rpartition(".")
    numbered = {int(m[1]): name for name in names if (m := re.fullmatch(rf"{stem}-(\d{{1,6}})\.{suffix}", name))}
    return [first, *(numbered[number] for number in sorted(numbered))]


def weight_file_name(number: int, first: str) -> str:
    """The name of the file with this number, from 1."""
    stem, _, suffix = first.rpartition(".")
    return first if number == 1 else f"{stem}-{number}.{suffix}"
