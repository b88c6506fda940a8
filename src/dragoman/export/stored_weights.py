"""The weights of a model directory without PyTorch and without a copy: the file itself, mapped."""

from __future__ import annotations

import json
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHTS = "model.safetensors"
Weights = Mapping[str, NDArray[np.float32]]


def map_weights(directory: Path) -> Weights | None:
    """The tensors of `model.safetensors` by name; None where some are not float32.

    The format is a length, a JSON header with each tensor's type, shape and place, and the tensors.
    """
    with (directory / WEIGHTS).open("rb") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    start = 8 + int.from_bytes(whole[:8], "little")
    header: dict[str, Any] = json.loads(whole[8:start])
    header.pop("__metadata__", None)
    found = {}
    for name, about in header.items():
        if about["dtype"] != "F32":
            return None
        first, last = about["data_offsets"]
        found[name] = np.frombuffer(whole, np.float32, (last - first) // 4, start + first).reshape(about["shape"])
    return found
