"""Matrix products in bfloat16 on a CPU, by our own kernel (`native/gemm/`).

It uses the processor's matrix unit or dot products: operands are rounded to bfloat16; sums, inputs and results stay
float32.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from functools import cache
from typing import Any

import torch
from torch import Tensor

from dragoman.native import library


@cache
def has_bfloat16_matmul() -> bool:
    """Whether this machine has the kernel; the first call builds it and tests it in a child process."""
    return _kernel() is not None


@cache
def _kernel() -> Any:
    """The C function, for dot products if the system denies this process the tile registers."""
    code = library("gemm")
    if code is not None and code.request_tiles() != 0:
        code = library("gemm", tiles=False)
    if code is None:
        return None
    long, pointer, flag = ctypes.c_long, ctypes.c_void_p, ctypes.c_int
    sizes, left, right = (long,) * 3, (pointer, long, flag), (pointer, long, flag)
    code.product.argtypes = (*sizes, *left, *right, pointer, long, pointer, flag, flag)
    return code.product


@cache
def torch_bfloat16_works() -> bool:
    """Whether PyTorch's own bfloat16 products work on this CPU, tested in a child process because it may crash.

    On some virtual machines that hide CPU features, PyTorch's kernels crash the process.
    """
    test = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); (x @ x).sum().item()"
    return subprocess.run([sys.executable, "-c", test], capture_output=True, check=False).returncode == 0


@torch.library.custom_op("dragoman::cpu_bf16_matmul", mutates_args=("out",), device_types="cpu")
def cpu_bf16_matmul(left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None = None, add: bool = False) -> None:
    """`out[M, N] = left[M, K] right[K, N] + bias[N]` in bfloat16; with `add`, add to `out` instead."""
    (m, k), n = left.shape, right.shape[1]
    left, left_k = _dense(left, 1)
    right, right_k = _dense(right, 0)
    failed = _kernel()(
        m, n, k,
        left.data_ptr(), left.stride(0) if left_k else left.stride(1), left_k,
        right.data_ptr(), right.stride(1) if right_k else right.stride(0), right_k,
        out.data_ptr(), out.stride(0), None if bias is None else bias.data_ptr(), add, torch.get_num_threads(),
    )  # fmt: skip
    if failed:
        raise MemoryError(f"not enough memory to multiply [{m}, {k}] by [{k}, {n}]")


def _dense(x: Tensor, dimension: int) -> tuple[Tensor, bool]:
    """`x`, copied if neither dimension is dense, and whether `dimension` is dense."""
    if 1 not in x.stride():
        x = x.contiguous()
    return x, x.stride(dimension) == 1


class Bf16LinearFunction(torch.autograd.Function):
    """x W^T + b, and its gradients dy W and dy^T x, all by the kernel."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """`[..., in]` to `[..., out]`."""
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None
        (outs, ins), rows = weight.shape, x.shape[:-1].numel()
        y = x.new_empty(rows, outs)
        cpu_bf16_matmul(x.reshape(rows, ins), weight.T, y, bias)
        return y.view(*x.shape[:-1], outs)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The gradients of x, weight and bias."""
        x, weight = ctx.saved_tensors
        (outs, ins), rows = weight.shape, x.shape[:-1].numel()
        dy, flat = dy.reshape(rows, outs), x.reshape(rows, ins)
        dx, dweight = x.new_empty(rows, ins), None
        cpu_bf16_matmul(dy, weight, dx)
        if ctx.needs_input_grad[1]:  # not if it is frozen
            dweight = torch.empty_like(weight)
            cpu_bf16_matmul(dy.T, flat, dweight)
        return dx.view(x.shape), dweight, dy.sum(0) if ctx.has_bias else None
