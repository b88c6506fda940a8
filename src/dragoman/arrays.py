"""Types of NumPy arrays, and rows of integers as one array."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[Any]  # integers of any width
FloatArray = NDArray[Any]  # numbers of any width
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
Uint64Array = NDArray[np.uint64]


def concatenate(rows: Sequence[Sequence[int]]) -> tuple[Int32Array, Int32Array]:
    """Rows as one array, and their lengths."""
    lengths = np.fromiter(map(len, rows), np.int32, len(rows))
    return np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum())), lengths


def split_rows(ids: IntArray, lengths: IntArray) -> list[list[int]]:
    """The inverse of `concatenate`."""
    numbers, ends = ids.tolist(), np.cumsum(lengths).tolist()
    return [numbers[end - n : end] for end, n in zip(ends, lengths.tolist(), strict=True)]


def ranges(starts: IntArray, lengths: IntArray) -> IntArray:
    """The integers of several ranges, one range after the other."""
    before = np.cumsum(lengths) - lengths
    found: IntArray = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return found
