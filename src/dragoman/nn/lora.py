"""Low-rank adaptation (LoRA, Hu et al., 2021): frozen projections, each with a trained product of two thin matrices."""

from __future__ import annotations

import math
from collections.abc import Collection

import torch
from torch import Tensor, nn

from dragoman.errors import ShapeError
from dragoman.nn.linear import Linear, linear

LORA_A, LORA_B = "lora_a", "lora_b"


class LoraLinear(Linear):
    """x W^T + b + scale (x A^T) B^T with frozen W and b; B starts at zero, so the layer starts unchanged."""

    def __init__(self, base: nn.Linear, rank: int, scale: float) -> None:
        nn.Module.__init__(self)
        self.in_features, self.out_features, self.scale = base.in_features, base.out_features, scale
        self.weight, self.bias = base.weight, base.bias
        self.lora_a = nn.Parameter(torch.empty(rank, base.in_features).to(base.weight))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, rank).to(base.weight))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        """`[..., in]` to `[..., out]`."""
        return super().forward(x) + self.scale * linear(linear(x, self.lora_a), self.lora_b)


def add_adapters(model: nn.Module, rank: int, scale: float, projections: Collection[str] = ()) -> None:
    """Freeze a model, and add an adapter to each of the named projections; to all of them if none is named."""
    parts = [(*path.rpartition(".")[::2], part) for path, part in model.named_modules() if isinstance(part, Linear)]
    names = list(dict.fromkeys(name for _, name, _ in parts))
    for wrong in (name for name in projections if name not in names):
        message = f"the model has no projection {wrong!r} to adapt; use some of: {', '.join(names) or 'none'}"
        raise ShapeError(message, code="unknown_choice")
    if not parts:
        raise ShapeError("the model has no projections to adapt; fine-tune the whole model", code="unknown_choice")
    model.requires_grad_(False)
    for parent, name, part in parts:
        if not projections or name in projections:
            setattr(model.get_submodule(parent), name, LoraLinear(part, rank, scale))


def trained_weights(model: nn.Module) -> dict[str, Tensor]:
    """The tensors that training changes: those of the adapters, or all in a model without adapters."""
    weights: dict[str, Tensor] = model.state_dict()
    adapters = {name: w for name, w in weights.items() if name.rpartition(".")[2] in (LORA_A, LORA_B)}
    return adapters or weights
