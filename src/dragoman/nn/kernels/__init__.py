"""Kernels behind the operations of `nn`: Triton, cuBLASLt, and the PyTorch operators that wrap them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Final

import torch
from torch import Tensor

HAS_TRITON: Final = find_spec("triton") is not None
INTERPRETED: Final = os.environ.get("TRITON_INTERPRET") == "1"


def triton_available(device_type: str) -> bool:
    """Whether the kernels run on this type of device: CUDA with Triton, or any device in Triton's interpreter.

    PyTorch also calls AMD's GPUs cuda; their Triton lacks features that our kernels use.
    """
    return HAS_TRITON and (INTERPRETED or (device_type == "cuda" and torch.version.hip is None))


def uses_triton(x: Tensor) -> bool:
    """Whether the kernels, which accumulate in float32, support a tensor like `x`."""
    return triton_available(x.device.type) and x.dtype != torch.float64
