"""max(0, x W + b) as one product on a GPU, with bias and ReLU in its epilogue."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from dragoman.nn.kernels import uses_triton
from dragoman.nn.kernels.gpu_matmul import matmul

ROWS_PER_PROGRAM: Final = 256  # in the backward pass
ROWS_PER_TILE: Final = 16
COLUMNS_PER_PROGRAM: Final = 256


@torch.library.custom_op("dragoman::linear_relu", mutates_args=())
def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`[N, D]` to `[N, F]`; opaque to the compiler, which would split product and activation."""
    return matmul(x, weight.t(), bias=bias)


@linear_relu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])  # not len(x), which would specialize the compiled code


@torch.library.custom_op("dragoman::relu_backward", mutates_args=())
def relu_backward(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """`grad [N, F]` where `out` is positive, and partial sums of it over the rows for the gradient of the bias."""
    if not uses_triton(grad):
        masked = torch.where(out > 0, grad, 0)
        return masked, masked.sum(0, keepdim=True)
    from dragoman.nn.kernels.linear_relu_triton import relu_backward_kernel

    n, width = grad.shape
    parts = -(-n // ROWS_PER_PROGRAM)
    masked, sums = torch.empty_like(grad), grad.new_empty(parts, width, dtype=torch.float32)
    sizes = {"ROWS": ROWS_PER_PROGRAM, "TILE": ROWS_PER_TILE, "COLUMNS": COLUMNS_PER_PROGRAM}
    grid = (parts, -(-width // COLUMNS_PER_PROGRAM))
    relu_backward_kernel[grid](grad, out, masked, sums, n, width, **sizes, num_warps=4)
    return masked, sums


@relu_backward.register_fake
def _(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    if not uses_triton(grad):
        return torch.empty_like(grad), grad.new_empty(1, grad.shape[1])
    parts = -(-grad.shape[0] // ROWS_PER_PROGRAM)
    return torch.empty_like(grad), grad.new_empty(parts, grad.shape[1], dtype=torch.float32)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, out = ctx.saved_tensors
    masked, sums = relu_backward(grad.contiguous(), out)
    return masked @ weight, masked.t() @ x, sums.sum(0).to(grad.dtype)


linear_relu.register_autograd(_backward, setup_context=_save)
