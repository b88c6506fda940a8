"""The weights of a model directory without PyTorch and without a copy: the file itself, mapped."""

from __future__ import annotations

import json
import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import DamagedError
from dragoman.files import WEIGHTS


class Weights(dict[str, NDArray[np.float32]]):
    """Tensors by name, each a view of the mapped file."""

    def __init__(self, path: Path, file: mmap.mmap) -> None:
        super().__init__()
        self.path, self.file = path, file

    def let_go(self) -> None:
        """Give the memory of what was read back; what is read again comes from the file again."""
        self.file.madvise(mmap.MADV_DONTNEED)


def map_weights(directory: Path) -> Weights | None:
    """The tensors of `model.safetensors`; None where some are not float32.

    The format is a length, a JSON header with each tensor's type, shape and place, and the tensors.
    """
    path = directory / WEIGHTS
    try:
        with path.open("rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _views(path, whole)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None


def _views(path: Path, whole: mmap.mmap) -> Weights | None:
    start = 8 + int.from_bytes(whole[:8], "little")
    header: dict[str, Any] = json.loads(whole[8:start])
    header.pop("__metadata__", None)
    found = Weights(path, whole)
    for name, about in header.items():
        if about["dtype"] != "F32":
            return None
        (first, last), shape = about["data_offsets"], tuple(about["shape"])
        if min((*shape, first)) < 0 or last - first != 4 * math.prod(shape):
            raise ValueError(f"{name} of shape {shape} lies from byte {first} to {last}")
        found[name] = np.frombuffer(whole, np.float32, math.prod(shape), start + first).reshape(shape)
    return found
