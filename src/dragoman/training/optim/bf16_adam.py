"""bfloat16 copies of the weights, and Adam for their gradients, in one pass that also rounds for the next step.

PyTorch's kernels need gradients in the precision of the weights, write them back, and do not round: 44 bytes of memory
traffic per weight instead of 28. The moments are those of PyTorch's optimizer, so that they are saved.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import torch
from torch import Tensor, nn

from dragoman.data.batch import Batch
from dragoman.nn.kernels import triton_available
from dragoman.training.loss.cross_entropy import LossSum
from dragoman.training.optim.optimizer import Optimizer


class WithWeights(nn.Module):
    """A task called with other tensors in place of some of its weights."""

    def __init__(self, task: nn.Module) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: Batch, weights: dict[str, Tensor]) -> LossSum:
        """The loss of a batch with these weights."""
        loss: LossSum = torch.func.functional_call(self.task, weights, (batch,))
        return loss


class Bf16Weights:
    """Lower-precision `copies` of the `master` weights of a task's linear layers.

    There are none if `kind` is None or equals the precision of the weights. All are rounded at once before a step, and
    all gradients are widened at once after it; autocast does so one by one, in 156 small kernels for the base model.
    The numbers are the same, except that a bias's gradient is rounded too.
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


WEIGHTS_PER_PROGRAM: Final = 8192  # weights per program
WEIGHTS_PER_BLOCK: Final = 2048  # weights at a time
VECTOR_BYTES: Final = 16  # bytes that a thread reads at once; addresses must be multiples of it


def supports_bf16_adam(bf16: Bf16Weights, optimizer: Optimizer, batches: int) -> bool:
    """Whether the kernel applies; gradients of several batches are summed in float32 and left to PyTorch's Adam."""
    kinds = {half.device.type for half in bf16.copies}
    plain = len(optimizer.inner) == 1 and isinstance(optimizer.inner[0], torch.optim.Adam | torch.optim.AdamW)
    if batches != 1 or not plain or not kinds or not all(triton_available(kind) for kind in kinds):
        return False
    states = [optimizer.inner[0].state.get(weight, {}) for weight in bf16.master]
    held = [*bf16.master, *(state[name] for state in states if state for name in ("exp_avg", "exp_avg_sq"))]
    moved = {float(state["step"]) for state in states if state} - {0.0}
    exact = all(tensor.dtype == torch.float32 and _is_aligned(tensor) for tensor in held)
    return exact and all(map(_is_aligned, bf16.copies)) and len(moved) <= 1


class Bf16Adam:
    """Update the master weights by the gradients of their copies, and round them again.

    All weights that get gradients have made the same number of steps: the graph of a step is always the same.
    """

    def __init__(self, bf16: Bf16Weights, optimizer: Optimizer) -> None:
        self.bf16, self.inner = bf16, optimizer.inner[0]
        master = bf16.master
        self.chunks = [
            (number, start, min(WEIGHTS_PER_PROGRAM, weight.numel() - start))
            for number, weight in enumerate(master)
            for start in range(0, weight.numel(), WEIGHTS_PER_PROGRAM)
        ]
        for weight in master:
            state = self.inner.state[weight]
            if not state:  # as PyTorch initializes it
                state["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
                state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        self.table = torch.zeros(len(self.chunks), 6, dtype=torch.int64, device=master[0].device)
        self.host_table = self.table.cpu()

    def gradients(self) -> list[Tensor]:
        """The gradients of the copies."""
        return [half.grad for half in self.bf16.copies if half.grad is not None]

    def step(self, rate: Tensor, divisor: Tensor, skip: Tensor) -> None:
        """Update the weights by their gradients over `divisor`, unless `skip` is 1; then drop the gradients.

        The table cannot be uploaded while a CUDA graph is captured: call `upload_table` afterwards.
        """
        from dragoman.training.optim.adam_triton import adam_kernel

        for half in self.bf16.copies:
            if half.grad is not None and not _is_aligned(half.grad):  # a slice of something larger
                half.grad = half.grad.clone(memory_format=torch.contiguous_format)
        self._collect_addresses()
        if not (self.table.is_cuda and torch.cuda.is_current_stream_capturing()):
            self.upload_table()
        done = 1.0 - skip
        pairs = zip(self.bf16.master, self.bf16.copies, strict=True)
        steps = [self.inner.state[weight]["step"] for weight, half in pairs if half.grad is not None]
        if not steps:
            return
        torch._foreach_add_(steps, [done] * len(steps))  # the host would have to read a single tensor
        group = self.inner.param_groups[0]
        beta1, beta2 = map(float, group["betas"])
        corrections = [1 - torch.pow(beta, steps[0].double()) for beta in (beta1, beta2)]
        numbers = torch.stack([rate, rate / corrections[0], corrections[1].rsqrt(), 1 / divisor, done]).float()
        adam_kernel[(len(self.chunks),)](
            self.table, numbers, beta2, 1 - beta1, 1 - beta2, float(group["eps"]), float(group["weight_decay"]),
            HALF=_kind(self.bf16.copies[0].dtype), DECOUPLED=isinstance(self.inner, torch.optim.AdamW),
            CHUNK=WEIGHTS_PER_PROGRAM, BLOCK=WEIGHTS_PER_BLOCK,
            num_warps=8, maxnreg=64,  # four concurrent programs per multiprocessor
        )  # fmt: skip
        for half in self.bf16.copies:
            half.grad = None

    def upload_table(self) -> None:
        """Copy the addresses to the device."""
        self.table.copy_(self.host_table)

    def _collect_addresses(self) -> None:
        """Collect the addresses of all tensors; gradients of a captured graph stay where they are."""
        state = self.inner.state
        tensors_of = [
            [weight, half.grad, state[weight]["exp_avg"], state[weight]["exp_avg_sq"], half]
            for weight, half in zip(self.bf16.master, self.bf16.copies, strict=True)
        ]
        rows = []
        for number, start, count in self.chunks:
            tensors = tensors_of[number]
            if tensors[1] is None:
                rows.append([0] * 6)  # no gradient in this step
                continue
            rows.append([t.data_ptr() + start * t.element_size() for t in tensors] + [count])
        self.host_table = torch.tensor(rows, dtype=torch.int64)


def _is_aligned(tensor: Tensor) -> bool:
    """Whether a tensor is contiguous and aligned as the kernel requires."""
    return tensor.is_contiguous() and tensor.data_ptr() % VECTOR_BYTES == 0


def _kind(kind: torch.dtype) -> object:
    import triton.language as tl

    return {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16}[kind]
