"""max(0, x W + b) as one product on a GPU, whose epilogue adds the bias and cuts at zero."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from dragoman.nn.kernels.availability import available
from dragoman.nn.kernels.gpu_matmul import matmul

ROWS: Final = 256  # of a program on the way back
TILE: Final = 16  # of them at a time
COLUMNS: Final = 256


@torch.library.custom_op("dragoman::linear_relu", mutates_args=())
def linear_relu(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`[N, D]` to `[N, F]`; opaque to the compiler, which would take product and activation apart."""
    return matmul(x, weight.t(), bias=bias)


@linear_relu.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0])  # not len(x): a number would bind the compiled code to it


def by_kernel(grad: Tensor) -> bool:
    """Whether the kernel takes the way back; its sums are float32."""
    return available(grad.device.type) and grad.dtype != torch.float64


@torch.library.custom_op("dragoman::relu_backward", mutates_args=())
def relu_backward(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """`grad [N, F]` where `out` is above zero, and its sums over parts of the rows, which add up to the bias's."""
    if not by_kernel(grad):
        cut = torch.where(out > 0, grad, 0)
        return cut, cut.sum(0, keepdim=True)
    from dragoman.nn.kernels.linear_relu_triton import relu_backward_kernel

    n, width = grad.shape
    parts = -(-n // ROWS)
    cut, sums = torch.empty_like(grad), grad.new_empty(parts, width, dtype=torch.float32)
    relu_backward_kernel[(parts, -(-width // COLUMNS))](
        grad, out, cut, sums, n, width, ROWS=ROWS, TILE=TILE, COLUMNS=COLUMNS, num_warps=4
    )
    return cut, sums


@relu_backward.register_fake
def _(grad: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    if not by_kernel(grad):
        return torch.empty_like(grad), grad.new_empty(1, grad.shape[1])
    return torch.empty_like(grad), grad.new_empty(-(-grad.shape[0] // ROWS), grad.shape[1], dtype=torch.float32)


def _keep(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], inputs[1], output)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    x, weight, out = ctx.saved_tensors
    cut, sums = relu_backward(grad.contiguous(), out)
    return cut @ weight, cut.t() @ x, sums.sum(0).to(grad.dtype)


linear_relu.register_autograd(_backward, setup_context=_keep)
