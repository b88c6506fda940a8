"""Where Triton's kernels can run."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Final

import torch

HAS_TRITON: Final = find_spec("triton") is not None
INTERPRETED: Final = os.environ.get("TRITON_INTERPRET") == "1"


def available(kind: str) -> bool:
    """Whether the kernels run on this kind of device: CUDA with Triton, or anywhere in Triton's interpreter.

    PyTorch calls AMD's GPUs cuda as well, whose Triton does not know all that our kernels ask for.
    """
    return HAS_TRITON and (INTERPRETED or (kind == "cuda" and torch.version.hip is None))
