"""The linear map of every projection, and the precision in which its products are made.

Inside `bfloat16_products`, products of float32 matrices on a CPU are made by our own kernel for the processor's matrix
unit or dot products (`native/gemm/`): operands rounded to bfloat16, sums, inputs and results in float32. All else
stays as it is, so that norms, softmax, residuals and weights keep their precision.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.native import library

_in_bfloat16 = False


@contextmanager
def bfloat16_products() -> Iterator[None]:
    """Make the products of this block in bfloat16, and those of the gradients that follow from them."""
    global _in_bfloat16  # a plain name, which torch.compile can watch
    before, _in_bfloat16 = _in_bfloat16, True
    try:
        yield
    finally:
        _in_bfloat16 = before


@cache
def has_bfloat16_products() -> bool:
    """Whether this machine can; the first call builds the kernel and tries it in a child."""
    return _kernel() is not None


@cache
def _kernel() -> Any:
    """The C function; with dot products where the system refuses this process the tile registers."""
    made = library("gemm", "-fopenmp")
    if made is not None and made.request_tiles() != 0:
        made = library("gemm", "-fopenmp", "-mno-amx-bf16")
    if made is None:
        return None
    long, pointer, flag = ctypes.c_long, ctypes.c_void_p, ctypes.c_int
    sizes, left, right = (long,) * 3, (pointer, long, flag), (pointer, long, flag)
    made.product.argtypes = (*sizes, *left, *right, pointer, long, pointer, flag, flag)
    return made.product


@cache
def survives_bfloat16() -> bool:
    """Whether this CPU can do it, tried in a child process that may die.

    Some virtual machines hide a part of what PyTorch's kernels ask the processor for, and then kill the process.
    """
    trial = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); (x @ x).sum().item()"
    return subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False).returncode == 0


def wants_bfloat16(x: Tensor) -> bool:
    """Whether products of `x` are to be made by the kernel."""
    return _in_bfloat16 and x.device.type == "cpu" and x.dtype == torch.float32


@torch.library.custom_op("dragoman::product", mutates_args=("out",), device_types="cpu")
def product(left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None = None, add: bool = False) -> None:
    """`out[M, N] = left[M, K] right[K, N] + bias[N]` in bfloat16; with `add`, added to what `out` holds."""
    (m, k), n = left.shape, right.shape[1]
    left, left_k = _adjacent(left, 1)
    right, right_k = _adjacent(right, 0)
    failed = _kernel()(
        m, n, k,
        left.data_ptr(), left.stride(0) if left_k else left.stride(1), left_k,
        right.data_ptr(), right.stride(1) if right_k else right.stride(0), right_k,
        out.data_ptr(), out.stride(0), None if bias is None else bias.data_ptr(), add, torch.get_num_threads(),
    )  # fmt: skip
    if failed:
        raise MemoryError(f"no memory to multiply [{m}, {k}] by [{k}, {n}]")


def _adjacent(x: Tensor, dimension: int) -> tuple[Tensor, bool]:
    """`x`, copied where neither of its dimensions is dense, and whether the elements along `dimension` are adjacent."""
    if 1 not in x.stride():
        x = x.contiguous()
    return x, x.stride(dimension) == 1


def multiply(left: Tensor, right: Tensor, out: Tensor, *, add: bool = False) -> None:
    """`left right` into `out`, or added to it, in the precision asked for; for code that makes its own gradients."""
    if wants_bfloat16(left):
        product(left, right, out, None, add)
    elif add:
        out.addmm_(left, right)
    else:
        torch.mm(left, right, out=out)


class _Linear(torch.autograd.Function):
    """x W^T + b, and its gradients dy W and dy^T x, all by the kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        (outs, ins), rows = weight.shape, x.shape[:-1].numel()
        y = x.new_empty(rows, outs)
        product(x.reshape(rows, ins), weight.T, y, bias)
        return y.view(*x.shape[:-1], outs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        (outs, ins), rows = weight.shape, x.shape[:-1].numel()
        dy, flat = dy.reshape(rows, outs), x.reshape(rows, ins)
        dx, dweight = x.new_empty(rows, ins), torch.empty_like(weight)
        product(dy, weight, dx)
        product(dy.T, flat, dweight)
        return dx.view(x.shape), dweight, dy.sum(0) if ctx.has_bias else None


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x W^T + b on the last dimension, in the precision asked for."""
    if wants_bfloat16(x):
        y: Tensor = _Linear.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return y
    return F.linear(x, weight, bias)


class Linear(nn.Linear):
    """`torch.nn.Linear`, with its product in the precision asked for."""

    def forward(self, x: Tensor) -> Tensor:
        """`[..., in]` to `[..., out]`."""
        return linear(x, self.weight, self.bias)
