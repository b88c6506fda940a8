"""Adam for weights whose gradients are in half precision, in one pass that also rounds them for the next step.

PyTorch's kernels want gradients in the precision of the weights, write them back, and leave the rounding to others: 44
bytes pass through memory for each weight where 28 do. The moments are those of PyTorch's optimizer, which are saved.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from dragoman.nn.kernels.availability import available
from dragoman.training.optim.bf16_weights import Halves
from dragoman.training.optim.optimizer import Optimizer

CHUNK: Final = 8192  # weights of a program
BLOCK: Final = 2048  # of them at a time
PLACE: Final = 16  # bytes that a thread reads at once: what the kernel is given begins at multiples of it


def suits(halves: Halves, optimizer: Optimizer, batches: int) -> bool:
    """Whether the kernel can do it: of several batches the sum is made in float32, and PyTorch's Adam takes it."""
    kinds = {half.device.type for half in halves.half}
    plain = len(optimizer.inner) == 1 and isinstance(optimizer.inner[0], torch.optim.Adam | torch.optim.AdamW)
    if batches != 1 or not plain or not kinds or not all(available(kind) for kind in kinds):
        return False
    states = [optimizer.inner[0].state.get(weight, {}) for weight in halves.whole]
    held = [*halves.whole, *(state[name] for state in states if state for name in ("exp_avg", "exp_avg_sq"))]
    moved = {float(state["step"]) for state in states if state} - {0.0}
    exact = all(tensor.dtype == torch.float32 and _lies_well(tensor) for tensor in held)
    return exact and all(map(_lies_well, halves.half)) and len(moved) <= 1


class HalfAdam:
    """Moves the weights of `halves` by the gradients of their halves, and rounds them anew.

    Those that move have all moved as often: the graph of a step is always the same.
    """

    def __init__(self, halves: Halves, optimizer: Optimizer) -> None:
        self.halves, self.inner = halves, optimizer.inner[0]
        whole = halves.whole
        self.chunks = [
            (number, start, min(CHUNK, weight.numel() - start))
            for number, weight in enumerate(whole)
            for start in range(0, weight.numel(), CHUNK)
        ]
        for weight in whole:
            state = self.inner.state[weight]
            if not state:  # as PyTorch begins
                state["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        self.table = torch.zeros(len(self.chunks), 6, dtype=torch.int64, device=whole[0].device)
        self.filled = self.table.cpu()

    def gradients(self) -> list[Tensor]:
        """Those that there are."""
        return [half.grad for half in self.halves.half if half.grad is not None]

    def step(self, rate: Tensor, divisor: Tensor, skip: Tensor) -> None:
        """Move the weights by their gradients over `divisor`, unless `skip` is 1; the gradients are gone then.

        While a CUDA graph is recorded, the table cannot be filled: `remember` does it afterwards.
        """
        from dragoman.training.optim.adam_triton import adam_kernel

        for half in self.halves.half:
            if half.grad is not None and not _lies_well(half.grad):  # a token of something larger
                half.grad = half.grad.clone(memory_format=torch.contiguous_format)
        self._look_up()
        if not (self.table.is_cuda and torch.cuda.is_current_stream_capturing()):
            self.remember()
        done = 1.0 - skip
        pairs = zip(self.halves.whole, self.halves.half, strict=True)
        steps = [self.inner.state[whole]["step"] for whole, half in pairs if half.grad is not None]
        if not steps:
            return
        torch._foreach_add_(steps, [done] * len(steps))  # a single tensor would be read by the host
        group = self.inner.param_groups[0]
        beta1, beta2 = map(float, group["betas"])
        corrections = [1 - torch.pow(beta, steps[0].double()) for beta in (beta1, beta2)]
        numbers = torch.stack([rate, rate / corrections[0], corrections[1].rsqrt(), 1 / divisor, done]).float()
        adam_kernel[(len(self.chunks),)](
            self.table, numbers, beta2, 1 - beta1, 1 - beta2, float(group["eps"]), float(group["weight_decay"]),
            HALF=_kind(self.halves.half[0].dtype), DECOUPLED=isinstance(self.inner, torch.optim.AdamW),
            CHUNK=CHUNK, BLOCK=BLOCK, num_warps=8, maxnreg=64,  # four programs at once on a multiprocessor
        )  # fmt: skip
        for half in self.halves.half:
            half.grad = None

    def remember(self) -> None:
        """Let the kernel know where gradients lie."""
        self.table.copy_(self.filled)

    def _look_up(self) -> None:
        """Where everything lies; gradients that a recorded graph makes stay where they are."""
        state = self.inner.state
        places = [
            [weight, half.grad, state[weight]["exp_avg"], state[weight]["exp_avg_sq"], half]
            for weight, half in zip(self.halves.whole, self.halves.half, strict=True)
        ]
        rows = []
        for number, start, count in self.chunks:
            tensors = places[number]
            if tensors[1] is None:
                rows.append([0] * 6)  # nothing came to it in this step
                continue
            rows.append([t.data_ptr() + start * t.element_size() for t in tensors] + [count])
        self.filled = torch.tensor(rows, dtype=torch.int64)


def _lies_well(tensor: Tensor) -> bool:
    """Row by row, from an address that the kernel can read many bytes at."""
    return tensor.is_contiguous() and tensor.data_ptr() % PLACE == 0


def _kind(kind: torch.dtype) -> object:
    import triton.language as tl

    return {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}[kind]
