"""Projection to the vocabulary and loss in one on a GPU: a block of rows at a time, with gradients.

The full table of logits is never stored, and no logits are in float32: one kernel reads a block's bfloat16 logits,
computes both losses and overwrites the logits with the gradient; two matmuls do the rest.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from dragoman.nn.kernels.gpu_matmul import matmul

ROWS: Final = 8192  # of logits at a time
LOGITS_PER_BLOCK: Final = 1024  # logits of a row at a time; twice as many if rows are wide
WARPS: Final = 8  # likewise: with fewer rows in flight, the second read hits the cache
WIDE: Final = 24576
STEP: Final = 64  # the columns of logits are a multiple of it, for fast matmuls


def losses(
    logits_NV: Tensor,
    labels_N: Tensor,
    smoothed: Tensor,
    plain: Tensor,
    vocabulary: int,
    smoothing: float,
    pad: int,
    gradient: bool,
) -> None:
    """Compute both losses of each row; with `gradient`, overwrite the logits with that of the smoothed loss."""
    from dragoman.training.loss.cross_entropy_triton import cross_entropy_kernel

    n, width = logits_NV.shape
    times = 2 if width > WIDE else 1
    cross_entropy_kernel[(n,)](
        logits_NV, labels_N, smoothed, plain, width, vocabulary, pad, smoothing,
        GRADIENT=gradient, BLOCK=times * LOGITS_PER_BLOCK, num_warps=times * WARPS,
    )  # fmt: skip


@torch.library.custom_op("dragoman::projected_loss", mutates_args=())
def projected_loss(
    hidden_ND: Tensor, weight_VD: Tensor, labels_N: Tensor, smoothing: float, pad: int, gradient: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The sums of the smoothed and the plain loss, and the gradients of the first for `hidden` and `weight`.

    `weight` is rounded to the precision of `hidden`; its gradient is summed in float32.
    """
    n, vocabulary = len(hidden_ND), len(weight_VD)
    width = -(-vocabulary // STEP) * STEP
    weight = hidden_ND.new_empty(width, hidden_ND.shape[1])
    weight[:vocabulary], weight[vocabulary:] = weight_VD, 0
    smoothed, plain = (hidden_ND.new_empty(n, dtype=torch.float32) for _ in range(2))
    grad_hidden = torch.empty_like(hidden_ND) if gradient else hidden_ND.new_empty(0)
    grad_weight = torch.empty_like(weight, dtype=torch.float32) if gradient else None
    if grad_weight is not None and not n:
        grad_weight.zero_()
    logits = hidden_ND.new_empty(min(ROWS, n), width)
    for start in range(0, n, ROWS):
        here = slice(start, min(start + ROWS, n))
        h = hidden_ND[here]
        x = matmul(h, weight.T, out=logits[: len(h)])
        losses(x, labels_N[here], smoothed[here], plain[here], vocabulary, smoothing, pad, gradient)
        if grad_weight is not None:
            matmul(x, weight, out=grad_hidden[here])
            before = int(start > 0)  # the first block overwrites without reading
            if x.device.type == "cuda" and x.dtype != torch.float32:
                torch.addmm(grad_weight, x.T, h, out_dtype=torch.float32, beta=before, out=grad_weight)
            else:
                grad_weight.addmm_(x.float().T, h.float(), beta=before)
    of_weight = hidden_ND.new_empty(0) if grad_weight is None else grad_weight[:vocabulary]
    return smoothed.sum(), plain.sum(), grad_hidden, of_weight


@projected_loss.register_fake
def _(
    hidden_ND: Tensor, weight_VD: Tensor, labels_N: Tensor, smoothing: float, pad: int, gradient: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    sums = (hidden_ND.new_empty((), dtype=torch.float32) for _ in range(2))
    if not gradient:
        return *sums, hidden_ND.new_empty(0), hidden_ND.new_empty(0)  # type: ignore[return-value]
    return *sums, torch.empty_like(hidden_ND), torch.empty_like(weight_VD, dtype=torch.float32)  # type: ignore[return-value]


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.type = inputs[1].dtype
    ctx.save_for_backward(*output[2:])


def _backward(ctx: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
    grad_hidden, grad_weight = ctx.saved_tensors
    of_hidden = (grad_hidden * grad).to(grad_hidden.dtype)
    return of_hidden, (grad_weight * grad).to(ctx.type), None, None, None, None


projected_loss.register_autograd(_backward, setup_context=_keep)
