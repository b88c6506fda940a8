"""LayerNorm(x + Dropout(y)) as one operator; its backward pass reads and writes each tensor once.

The compiler's own version stores the dropout mask as a byte per element, and needs two more kernels for the gradients
of the norm's weights. Here the mask is recomputed, and these gradients are partially summed in the same pass.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from dragoman.nn.dropout import hashed_mask
from dragoman.nn.kernels import triton_available, uses_triton

ROWS_PER_PROGRAM: Final = 64  # in the backward pass; twice as many if they are wide
ROWS_PER_TILE: Final = 4  # half as many if they are wide
BACKWARD_ROWS_PER_TILE: Final = 2
WIDE_D_MODEL: Final = 512  # rows beyond this are wide
WARPS: Final = 4
COLUMNS_PER_LOAD: Final = 256  # by a warp
MAX_D_MODEL: Final = 1024  # wider rows do not fit into a warp's registers

compiler_ready = False  # set by training/steps/compilation.py once the operators are registered with the compiler


def fuses_residual_norm(x: Tensor, y: Tensor) -> bool:
    """Whether the kernel supports `x` and its sublayer's output: packed rows in half precision on a GPU."""
    if not compiler_ready or y.dtype not in (torch.bfloat16, torch.float16):
        return False
    return x.is_cuda and x.dim() == 2 and x.shape[1] <= MAX_D_MODEL and x.numel() < 1 << 31 and triton_available("cuda")


def _options(d: int, p: float, tile: int) -> dict[str, Any]:
    width = min(COLUMNS_PER_LOAD, 1 << (d - 1).bit_length())
    return {
        "threshold": min(round(p * (1 << 32)), (1 << 32) - 1) - (1 << 31),
        "factor": 1 / (1 - p),
        "D": d,
        "DROP": p > 0,
        "CHUNKS": 1 << (-(-d // width) - 1).bit_length(),
        "TILE": tile,
        "WIDTH": width,
        "num_warps": WARPS,
    }


def _rows_per_program(d: int) -> int:
    """Rows of a program in the backward pass."""
    return ROWS_PER_PROGRAM if d <= WIDE_D_MODEL else 2 * ROWS_PER_PROGRAM


@torch.library.custom_op("dragoman::residual_norm", mutates_args=())
def residual_norm(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, seeds: Tensor, p: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`[N, D]`: the norm of the sum; the sum, its rows' means and reciprocal deviations for the backward pass.

    The dropout mask is a function of the element's index and the two numbers `seeds`.
    """
    if not uses_triton(y):
        total = x + (torch.where(hashed_mask(y, p, seeds), y / (1 - p), 0.0) if p else y)
        out, mean, rstd = torch.native_layer_norm(total, total.shape[1:], weight.to(y.dtype), bias.to(y.dtype), epsilon)
        return out, total, mean.flatten(), rstd.flatten()
    from dragoman.nn.kernels.residual_norm_triton import residual_norm_kernel

    n, d = y.shape
    out, total = torch.empty_like(y), torch.empty_like(y)
    mean, rstd = (y.new_empty(n, dtype=torch.float32) for _ in range(2))
    tile = ROWS_PER_TILE if d <= WIDE_D_MODEL else ROWS_PER_TILE // 2
    residual_norm_kernel[(-(-n // tile),)](
        x, y, weight, bias, seeds, out, total, mean, rstd, n, epsilon, **_options(d, p, tile)
    )
    return out, total, mean, rstd


@residual_norm.register_fake
def _(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, seeds: Tensor, p: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dtype = torch.float32 if uses_triton(y) else y.dtype
    mean, rstd = (y.new_empty(y.shape[0], dtype=dtype) for _ in range(2))
    return torch.empty_like(y), torch.empty_like(y), mean, rstd


@torch.library.custom_op("dragoman::residual_norm_backward", mutates_args=())
def residual_norm_backward(
    grad: Tensor,
    other: Tensor | None,
    total: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor,
    seeds: Tensor,
    p: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `x` and `y`, and the sums `[parts, 2, D]` over parts of the rows for weight and bias.

    The gradient of the output is `grad`, or `grad + other`: the caller need not add those of the residual
    connection and of the next sublayer.
    """
    n, d = total.shape
    if not uses_triton(total):
        grad = grad if other is None else grad + other
        normal = (total - mean[:, None]) * rstd[:, None]
        sums = torch.stack([(grad * normal).sum(0), grad.sum(0)])[None]
        grad = grad * weight.to(grad.dtype)
        dx = grad - grad.mean(1, keepdim=True) - normal * (grad * normal).mean(1, keepdim=True)
        dx = (dx * rstd[:, None]).to(total.dtype)
        return dx, torch.where(hashed_mask(dx, p, seeds), dx / (1 - p), 0.0) if p else dx.clone(), sums
    from dragoman.nn.kernels.residual_norm_triton import residual_norm_backward_kernel

    dx, dy = torch.empty_like(total), torch.empty_like(total)
    parts = -(-n // _rows_per_program(d))
    sums = total.new_empty(parts, 2, d, dtype=torch.float32)
    residual_norm_backward_kernel[(parts,)](
        grad, grad if other is None else other, total, mean, rstd, weight, seeds, dx, dy, sums, n,
        TWO=other is not None, ROWS=_rows_per_program(d), **_options(d, p, BACKWARD_ROWS_PER_TILE),
    )  # fmt: skip
    return dx, dy, sums


@residual_norm_backward.register_fake
def _(grad: Tensor, other: Tensor | None, total: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    n, d = total.shape
    kernel = uses_triton(total)
    sums = total.new_empty(
        -(-n // _rows_per_program(d)) if kernel else 1, 2, d, dtype=torch.float32 if kernel else total.dtype
    )
    return torch.empty_like(total), torch.empty_like(total), sums


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, weight, _, seeds, p, _ = inputs
    ctx.p = p
    ctx.save_for_backward(*output[1:], weight, seeds)


def _backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    total, mean, rstd, weight, seeds = ctx.saved_tensors
    dx, dy, parts = residual_norm_backward(grad.contiguous(), None, total, mean, rstd, weight, seeds, ctx.p)
    sums = parts.sum(0).to(weight.dtype)
    return dx, dy, sums[0], sums[1], None, None, None


residual_norm.register_autograd(_backward, setup_context=_save)


def add_and_norm(x: Tensor, y: Tensor, norm: torch.nn.LayerNorm, p: float) -> Tensor:
    """LayerNorm(x + Dropout(y)), in the precision of `y`."""
    seeds = torch.rand(2, device=y.device) if p else y.new_empty(0, dtype=torch.float32)
    out: Tensor
    out, *_ = residual_norm(x.to(y.dtype).contiguous(), y.contiguous(), norm.weight, norm.bias, seeds, p, norm.eps)
    return out
