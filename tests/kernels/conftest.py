"""Where there is no GPU, Triton's interpreter stands for it; Triton asks when it is imported."""

from __future__ import annotations

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
