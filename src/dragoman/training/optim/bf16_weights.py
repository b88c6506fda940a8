"""Half-precision copies of linear weights: all rounded at once before a step, all gradients widened at once after it.

Autocast rounds each matrix and widens each gradient separately: 156 small kernels in a step of the base model instead
of a few. The numbers are the same, except that a bias's gradient is rounded too.
"""

from __future__ import annotations

from collections import Counter

import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch
from dragoman.training.loss.cross_entropy import LossSum


class WithWeights(nn.Module):
    """A task that is called with other tensors for some of its weights."""

    def __init__(self, task: nn.Module) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: Batch, weights: dict[str, Tensor]) -> LossSum:
        """The loss of a batch, by these weights."""
        loss: LossSum = torch.func.functional_call(self.task, weights, (batch,))
        return loss


class Bf16Weights:
    """Lower-precision `copies` of the `master` weights of a task's linear layers.

    There are none if `kind` is None or the precision of the weights.
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
        self.master: list[Tensor] = list(found.values()) if kind is not None else []
        names = list(found) if kind is not None else []
        self.copies = [p.detach().to(kind).requires_grad_() for p in self.master]
        self.gradients: list[Tensor] = []
        self.named = dict(zip(names, self.copies, strict=True))

    def refresh(self) -> None:
        """Round the current weights."""
        if self.copies:
            with torch.no_grad():
                torch._foreach_copy_(self.copies, self.master)

    def collect(self, add: bool) -> None:
        """Move the gradients of the copies to the weights, or add them with `add`."""
        if not self.gradients:
            self.gradients = [torch.zeros_like(p, requires_grad=False) for p in self.master]
        fresh: list[tuple[Tensor, Tensor]] = []
        more: list[tuple[Tensor, Tensor]] = []
        for weight, half, total in zip(self.master, self.copies, self.gradients, strict=True):
            before = weight.grad if add else None
            if half.grad is not None:
                (fresh if before is None else more).append((total, half.grad))
                before = total
            weight.grad, half.grad = before, None
        if fresh:
            torch._foreach_copy_([total for total, _ in fresh], [new for _, new in fresh])
        if more:
            torch._foreach_add_([total for total, _ in more], [new.to(total.dtype) for total, new in more])
