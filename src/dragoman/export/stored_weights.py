"""The weights of a model directory without PyTorch and without a copy: the file itself, mapped."""

from __future__ import annotations

import json
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHTS = "model.safetensors"


class Weights(dict[str, NDArray[np.float32]]):
    """Tensors by name, each a view of the mapped file."""

    def __init__(self, file: mmap.mmap) -> None:
        super().__init__()
        self.file = file

    def let_go(self) -> None:
        """Give the memory of what was read back; what is read again comes from the file again."""
        self.file.madvise(mmap.MADV_DONTNEED)


def map_weights(directory: Path) -> Weights | None:
    """The tensors of `model.safetensors`; None where some are not float32.

    The format is a length, a JSON header with each tensor's type, shape and place, and the tensors.
    """
    with (directory / WEIGHTS).open("rb") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(whole[:8], "little")
    header: dict[str, Any] = json.loads(whole[8:start])
    header.pop("__metadata__", None)
    found = Weights(whole)
    for name, about in header.items():
        if about["dtype"] != "F32":
            return None
        first, last = about["data_offsets"]
        found[name] = np.frombuffer(whole, np.float32, (last - first) // 4, start + first).reshape(about["shape"])
    return found
