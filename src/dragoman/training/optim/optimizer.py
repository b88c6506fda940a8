"""Optimizers and the learning-rate schedule (section 5.3): Adam, AdamW and Muon, saved without pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.config import TrainRecipe
from dragoman.errors import DamagedError
from dragoman.training.distributed.sharding import shard_like


class Optimizer:
    """One or two PyTorch optimizers combined, with a state keyed by parameter name.

    Muon is for matrices; embeddings, norms and biases go to AdamW, as its authors advise.
    """

    def __init__(self, model: nn.Module, recipe: TrainRecipe) -> None:
        self.names = {id(parameter): name for name, parameter in model.named_parameters()}
        parameters = [p for p in model.parameters() if p.requires_grad]
        betas = (recipe.beta1, recipe.beta2)
        fused = all(p.device.type in ("cpu", "cuda") for p in parameters)
        common: Any = {"lr": 0.0, "betas": betas, "eps": recipe.epsilon, "weight_decay": recipe.weight_decay}
        match recipe.optimizer:
            case "adam":
                self.inner: list[torch.optim.Optimizer] = [torch.optim.Adam(parameters, fused=fused, **common)]
            case "adamw":
                self.inner = [torch.optim.AdamW(parameters, fused=fused, **common)]
            case "muon":
                inside = [
                    p
                    for n, p in model.named_parameters()
                    if p.requires_grad and p.dim() == 2 and "tables" not in n and "table" not in n
                ]
                chosen = {id(p) for p in inside}
                others = [p for p in parameters if id(p) not in chosen]
                self.inner = [
                    torch.optim.Muon(inside, lr=0.0, weight_decay=recipe.weight_decay, adjust_lr_fn="match_rms_adamw"),
                    *([torch.optim.AdamW(others, fused=fused, **common)] if others else []),
                ]

    def step(self, learning_rate: float) -> None:
        """Update the weights."""
        for optimizer in self.inner:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.step()

    def step_on_device(self, rate: Tensor, divisor: Tensor, skip: Tensor) -> None:
        """Update on the device alone: divide gradients by `divisor`, and change nothing if `skip` is 1.

        Uses the gradient-scaler arguments of PyTorch's fused kernels; Adam and AdamW only.
        """
        for optimizer in self.inner:
            optimizer.grad_scale, optimizer.found_inf = divisor, skip  # type: ignore[attr-defined]
            for group in optimizer.param_groups:
                group["lr"], group["capturable"] = rate, True
            optimizer.step()

    def clear_gradients(self) -> None:
        """Drop all gradients."""
        for optimizer in self.inner:
            optimizer.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """The full state of the optimizer: `<parameter>/<name>` -> tensor."""
        return {
            f"{self.names[id(parameter)]}/{what}": value
            for optimizer in self.inner
            for parameter, values in optimizer.state.items()
            for what, value in values.items()
            if value is not None
        }

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load a saved state."""
        for key, value in state.items():
            self.restore_tensor(key, value)

    def restore_tensor(self, key: str, value: Tensor) -> None:
        """Load one tensor of a saved state, as a copy: its file may be removed."""
        name, _, what = key.rpartition("/")
        for optimizer in self.inner:
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if self.names[id(parameter)] == name:
                        stays = what == "step" and not group.get("fused")
                        optimizer.state[parameter][what] = (
                            value.cpu().clone() if stays else shard_like(value, parameter)
                        )
                        return
        raise DamagedError(
            f"the checkpoint has an optimizer state for {name!r}, but the model has no such weight: the checkpoint "
            "belongs to another run; choose another --out, or restore this run's checkpoints",
            code="checkpoint_mismatch",
        )


def learning_rate(recipe: TrainRecipe, d_model: int, step: int) -> float:
    """The learning rate of step 1, 2, ...

    The paper's is d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5): it rises linearly to its peak,
    (d_model * warmup_steps)^-0.5, and falls with the square root of the step. With the same peak, "cosine" and "linear"
    fall to zero at the last step, and "constant" stays.
    """
    peak = recipe.learning_rate if recipe.learning_rate is not None else (d_model * recipe.warmup_steps) ** -0.5
    if step < recipe.warmup_steps:
        return peak * step / recipe.warmup_steps
    progress = (step - recipe.warmup_steps) / max(1, recipe.steps - recipe.warmup_steps)
    match recipe.schedule:
        case "inverse_sqrt":
            return peak * math.sqrt(max(1, recipe.warmup_steps) / step)
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        case "linear":
            return peak * max(0.0, 1 - progress)
        case "constant":
            return peak
