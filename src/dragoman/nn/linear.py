"""The linear map of every projection, in float32 or with the bfloat16 kernel for CPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.nn.kernels.cpu_bf16 import Bf16LinearFunction, cpu_bf16_matmul

_enabled = False


@contextmanager
def bfloat16_matmul() -> Iterator[None]:
    """Compute products and their gradients inside this block in bfloat16; everything else keeps its precision."""
    global _enabled  # a plain global, which torch.compile can guard
    before, _enabled = _enabled, True
    try:
        yield
    finally:
        _enabled = before


def uses_bfloat16(x: Tensor) -> bool:
    """Whether the bfloat16 kernel computes products of `x`."""
    return _enabled and x.device.type == "cpu" and x.dtype == torch.float32


def matmul_into(left: Tensor, right: Tensor, out: Tensor, *, add: bool = False) -> None:
    """Write `left right` to `out`, or add to it; for code that computes its own gradients."""
    if uses_bfloat16(left):
        cpu_bf16_matmul(left, right, out, None, add)
    elif add:
        out.addmm_(left, right)
    else:
        torch.mm(left, right, out=out)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b on the last dimension."""
    if uses_bfloat16(x):
        y: Tensor = Bf16LinearFunction.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return y
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """`torch.nn.Linear` that computes with `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """`[..., in]` to `[..., out]`."""
        return linear(x, self.weight, self.bias)
