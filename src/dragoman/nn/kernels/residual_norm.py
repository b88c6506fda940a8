"""LayerNorm(x + Dropout(y)) as one operator, in whose backward pass each tensor is read and written once.

The compiler's own keeps what fell as a byte an element, and leaves the sums for the norm's weights to two kernels more.
Here the hash that decided is made again, and the sums of a part of the rows are taken on the way.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from dragoman.nn.dropout import hashed_mask
from dragoman.nn.kernels.availability import available

ROWS: Final = 64  # of a program on the way back, and twice as many where they are wide
TILE: Final = 4  # of them at a time, and half as many where they are wide
BACK_TILE: Final = 2  # on the way back
WIDE: Final = 512  # beyond which rows are
WARPS: Final = 4
WIDTH: Final = 256  # columns that a warp loads at once
WIDEST: Final = 1024  # beyond which a warp's registers do not hold a row

announced = False  # whether the compiler was told what it needs to know of the operators (steps/compilation.py)


def suits(x: Tensor, y: Tensor) -> bool:
    """Whether `x` and what a sub-layer made of it are for the kernel: packed rows in half precision on a GPU."""
    if not announced or y.dtype not in (torch.bfloat16, torch.float16):
        return False
    return x.is_cuda and x.dim() == 2 and x.shape[1] <= WIDEST and x.numel() < 1 << 31 and available("cuda")


def by_kernel(x: Tensor) -> bool:
    """Whether the kernels do it; their sums are float32."""
    return available(x.device.type) and x.dtype != torch.float64


def _options(d: int, p: float, tile: int) -> dict[str, Any]:
    width = min(WIDTH, 1 << (d - 1).bit_length())
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


def _rows(d: int) -> int:
    """Of a program on the way back."""
    return ROWS if d <= WIDE else 2 * ROWS


@torch.library.custom_op("dragoman::residual_norm", mutates_args=())
def residual_norm(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, drawn: Tensor, p: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`[N, D]`: the norm of the sum; and the sum, its rows' means and reciprocal deviations for the backward pass.

    What falls of `y` is a function of its place and the two numbers `drawn`.
    """
    if not by_kernel(y):
        total = x + (torch.where(hashed_mask(y, p, drawn), y / (1 - p), 0.0) if p else y)
        out, mean, slope = torch.native_layer_norm(
            total, total.shape[1:], weight.to(y.dtype), bias.to(y.dtype), epsilon
        )
        return out, total, mean.flatten(), slope.flatten()
    from dragoman.nn.kernels.residual_norm_triton import residual_norm_kernel

    n, d = y.shape
    out, total = torch.empty_like(y), torch.empty_like(y)
    mean, slope = (y.new_empty(n, dtype=torch.float32) for _ in range(2))
    tile = TILE if d <= WIDE else TILE // 2
    residual_norm_kernel[(-(-n // tile),)](
        x, y, weight, bias, drawn, out, total, mean, slope, n, epsilon, **_options(d, p, tile)
    )
    return out, total, mean, slope


@residual_norm.register_fake
def _(
    x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, drawn: Tensor, p: float, epsilon: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    kind = torch.float32 if by_kernel(y) else y.dtype
    mean, slope = (y.new_empty(y.shape[0], dtype=kind) for _ in range(2))
    return torch.empty_like(y), torch.empty_like(y), mean, slope


@torch.library.custom_op("dragoman::residual_norm_backward", mutates_args=())
def residual_norm_backward(
    grad: Tensor,
    other: Tensor | None,
    total: Tensor,
    mean: Tensor,
    slope: Tensor,
    weight: Tensor,
    drawn: Tensor,
    p: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `x` and `y`, and sums `[parts, 2, D]` over parts of the rows: those of weight and bias.

    The gradient of the output is `grad`, or `grad + other`: what comes through the residual connection and through the
    sub-layer after it need not be added before.
    """
    n, d = total.shape
    if not by_kernel(total):
        grad = grad if other is None else grad + other
        normal = (total - mean[:, None]) * slope[:, None]
        sums = torch.stack([(grad * normal).sum(0), grad.sum(0)])[None]
        grad = grad * weight.to(grad.dtype)
        dx = grad - grad.mean(1, keepdim=True) - normal * (grad * normal).mean(1, keepdim=True)
        dx = (dx * slope[:, None]).to(total.dtype)
        return dx, torch.where(hashed_mask(dx, p, drawn), dx / (1 - p), 0.0) if p else dx.clone(), sums
    from dragoman.nn.kernels.residual_norm_triton import residual_norm_backward_kernel

    dx, dy = torch.empty_like(total), torch.empty_like(total)
    parts = -(-n // _rows(d))
    sums = total.new_empty(parts, 2, d, dtype=torch.float32)
    residual_norm_backward_kernel[(parts,)](
        grad, grad if other is None else other, total, mean, slope, weight, drawn, dx, dy, sums, n,
        TWO=other is not None, ROWS=_rows(d), **_options(d, p, BACK_TILE),
    )  # fmt: skip
    return dx, dy, sums


@residual_norm_backward.register_fake
def _(grad: Tensor, other: Tensor | None, total: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    n, d = total.shape
    kernel = by_kernel(total)
    sums = total.new_empty(-(-n // _rows(d)) if kernel else 1, 2, d, dtype=torch.float32 if kernel else total.dtype)
    return torch.empty_like(total), torch.empty_like(total), sums


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, _, weight, _, drawn, p, _ = inputs
    ctx.p = p
    ctx.save_for_backward(*output[1:], weight, drawn)


def _backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    total, mean, slope, weight, drawn = ctx.saved_tensors
    dx, dy, parts = residual_norm_backward(grad.contiguous(), None, total, mean, slope, weight, drawn, ctx.p)
    sums = parts.sum(0).to(weight.dtype)
    return dx, dy, sums[0], sums[1], None, None, None


residual_norm.register_autograd(_backward, setup_context=_keep)


def add_and_norm(x: Tensor, y: Tensor, norm: torch.nn.LayerNorm, p: float) -> Tensor:
    """LayerNorm(x + Dropout(y)), in the precision of `y`."""
    drawn = torch.rand(2, device=y.device) if p else y.new_empty(0, dtype=torch.float32)
    out: Tensor
    out, *_ = residual_norm(x.to(y.dtype).contiguous(), y.contiguous(), norm.weight, norm.bias, drawn, p, norm.eps)
    return out
