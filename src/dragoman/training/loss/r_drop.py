"""R-Drop (Liang et al., 2021): two passes over a batch with different dropout should give the same predictions.

The loss is the mean cross-entropy of both passes, plus `weight` / 4 times the two Kullback-Leibler divergences between
their probabilities. That is half of the paper's sum, comparable with the loss of a single pass.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dragoman.nn.linear import matmul_into

CPU_ROWS, GPU_ROWS = 512, 8192  # of logits at a time


class ProjectedRDrop(torch.autograd.Function):
    """Projection to the vocabulary and loss of both passes, some rows at a time, with gradients in the forward pass.

    With p and q the probabilities of the passes, the gradient of KL(p || q) for the logits of p is p (log p/q - KL),
    and that of KL(q || p) is p - q. Rows that are not `real` count 0.
    """

    @staticmethod
    def forward(
        ctx: Any,
        first_ND: Tensor,
        second_ND: Tensor,
        weight_VD: Tensor,
        labels_N: Tensor,
        real_N: Tensor,
        smoothing: float,
        r_drop: float,
    ) -> tuple[Tensor, Tensor]:
        n, vocabulary = len(labels_N), len(weight_VD)
        passes, weight = (first_ND, second_ND), weight_VD.to(first_ND.dtype)
        grads = [torch.empty_like(hidden) for hidden in passes]
        grad_weight = torch.zeros_like(weight, dtype=torch.float32)
        loss, plain = (first_ND.new_zeros((), dtype=torch.float32) for _ in range(2))
        rows = CPU_ROWS if first_ND.device.type == "cpu" else GPU_ROWS
        for start in range(0, n, rows):
            here = slice(start, min(start + rows, n))
            labels, real = labels_N[here, None], real_N[here, None].float()
            log_p = [_product(hidden[here], weight.T).float().log_softmax(-1) for hidden in passes]
            p = [x.exp() for x in log_p]
            apart = log_p[0] - log_p[1]
            for own, (x, sign) in enumerate(zip(p, (1.0, -1.0), strict=True)):
                divergence = sign * (x * apart).sum(-1, keepdim=True)
                of_label = -log_p[own].gather(-1, labels)
                smoothed = torch.lerp(of_label, -log_p[own].mean(-1, keepdim=True), smoothing)
                loss = loss + (real * (smoothed / 2 + r_drop / 4 * divergence)).sum()
                plain = plain + (real * of_label).sum() / 2
                slope = (x - smoothing / vocabulary).scatter_add(-1, labels, torch.full_like(of_label, smoothing - 1))
                slope = slope / 2 + r_drop / 4 * (x * (sign * apart - divergence) + x - p[1 - own])
                slope = (slope * real).to(weight.dtype)
                grads[own][here] = _product(slope, weight)
                grad_weight += _product(slope.T, passes[own][here])
        ctx.save_for_backward(*grads, grad_weight)
        ctx.kind = weight_VD.dtype
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        first, second, weight = ctx.saved_tensors
        of_passes = ((part * grad).to(part.dtype) for part in (first, second))
        return *of_passes, (weight * grad).to(ctx.kind), None, None, None, None


def _product(left: Tensor, right: Tensor) -> Tensor:
    product = left.new_empty(left.shape[0], right.shape[1])
    matmul_into(left, right, product)
    return product
