"""Weights of products in half precision, all rounded at once before a step, and their gradients widened at once after.

Autocast rounds each matrix where it is used and widens each gradient where it is made: 156 small kernels in a step of
the base model, where a few do. The numbers are the same, but that a bias's gradient is rounded too.
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch
from dragoman.training.loss.cross_entropy import LossSum


class WithWeights(nn.Module):
    """A task that is called with other tensors in the place of some of its weights."""

    def __init__(self, task: nn.Module) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: Batch, weights: dict[str, Tensor]) -> LossSum:
        """The loss of a batch, by these weights."""
        loss: LossSum = torch.func.functional_call(self.task, weights, (batch,))
        return loss


class Halves:
    """The matrices and biases of a task's linear maps in a lower precision, and the gradients in that of the weights.

    `kind` None, or that of the weights, means none of them.
    """

    def __init__(self, task: nn.Module, kind: torch.dtype | None) -> None:
        used = Counter(id(p) for m in task.modules() for p in m.parameters(recurse=False))
        found = {
            f"{path}.{name}" if path else name: parameter
            for path, module in task.named_modules()
            if isinstance(module, nn.Linear)
            for name, parameter in module.named_parameters(recurse=False)
            if parameter.requires_grad and parameter.dtype != kind and used[id(parameter)] == 1
        }
        self.whole: list[Tensor] = list(found.values()) if kind is not None else []
        names = list(found) if kind is not None else []
        self.half = [p.detach().to(kind).requires_grad_() for p in self.whole]
        self.gradients: list[Tensor] = []
        self.named = dict(zip(names, self.half, strict=True))

    def refresh(self) -> None:
        """Round the weights as they are now."""
        if self.half:
            with torch.no_grad():
                torch._foreach_copy_(self.half, self.whole)

    def collect(self, add: bool) -> None:
        """Give the weights the gradients of their halves, or add these to what was given, and begin anew."""
        if not self.gradients:
            self.gradients = [torch.zeros_like(p, requires_grad=False) for p in self.whole]
        fresh: list[tuple[Tensor, Tensor]] = []
        more: list[tuple[Tensor, Tensor]] = []
        for whole, half, total in zip(self.whole, self.half, self.gradients, strict=True):
            before = whole.grad if add else None
            if half.grad is not None:
                (fresh if before is None else more).append((total, half.grad))
                before = total
            whole.grad, half.grad = before, None
        if fresh:
            torch._foreach_copy_([total for total, _ in fresh], [new for _, new in fresh])
        if more:
            torch._foreach_add_([total for total, _ in more], [new.to(total.dtype) for total, new in more])
