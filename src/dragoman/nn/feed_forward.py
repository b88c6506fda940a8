"""Position-wise feed-forward networks, section 3.3."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.nn.attention.multi_head import start_projection
from dragoman.nn.dropout import Dropout
from dragoman.nn.kernels.linear_relu import linear_relu
from dragoman.nn.linear import Linear
from dragoman.nn.lora import LoraLinear

Activation = Callable[[Tensor], Tensor]
ACTIVATIONS: Mapping[str, Activation] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu, "tanh": torch.tanh}


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, at each position separately; other activations can replace the ReLU."""

    def __init__(self, d_model: int, d_ff: int, activation: Activation = F.relu, dropout: float = 0.0) -> None:
        super().__init__()
        self.inner: Linear = Linear(d_model, d_ff)
        self.outer: Linear = Linear(d_ff, d_model)
        self.activation = activation
        self.dropout = Dropout(dropout)
        start_projection(self.inner)
        start_projection(self.outer)

    def forward(self, x: Tensor) -> Tensor:
        """`[..., D]` to `[..., D]`."""
        y: Tensor = self.outer(self.dropout(self._activate(x)))
        return y

    def _activate(self, x: Tensor) -> Tensor:
        fused = self.training and x.is_cuda and self.activation is F.relu and torch.is_autocast_enabled("cuda")
        if not fused or isinstance(self.inner, LoraLinear):
            return self.activation(self.inner(x))
        dtype = torch.get_autocast_dtype("cuda")
        flat: Tensor = linear_relu(
            x.reshape(-1, x.shape[-1]).to(dtype), self.inner.weight.to(dtype), self.inner.bias.to(dtype)
        )
        return flat.view(*x.shape[:-1], flat.shape[-1])
