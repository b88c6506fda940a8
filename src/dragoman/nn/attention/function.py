"""Attention as a function of queries, keys and values (section 3.2), and the seam in which its rivals stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.nn.attention.sees import Sees


@dataclass(frozen=True)
class Attended:
    """What attention gives: `output [B, H, T, V]` and, where they were asked for, its `weights [B, H, T, S]`."""

    output: Tensor
    weights: Tensor | None = None


class AttentionFunction(Protocol):
    """What multi-head attention needs of the function inside it."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend from `q [B, H, T, K]` to `k [B, H, S, K]` and `v [B, H, S, V]`; `weights` asks for the weights too."""


def softmax_of_shown(scores: Tensor, shown: Tensor | None) -> Tensor:
    """Weights in float32 that sum to one over what is shown, and to nothing where nothing is."""
    scores = scores.float()
    if shown is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(~shown, torch.finfo(scores.dtype).min)  # finite: -inf alone in a row gives NaN
    return scores.softmax(-1).masked_fill(~shown, 0.0)


def weigh(scores: Tensor, v: Tensor, sees: Sees, dropout: float = 0.0) -> Attended:
    """Softmax over what is seen, then the weighted sum of the values: what every kind of attention shares.

    A query that sees nothing gives zeros, and its gradients are zeros too.
    """
    weights = softmax_of_shown(scores, sees.dense(scores.device)).to(v.dtype)
    return Attended(F.dropout(weights, dropout) @ v if dropout else weights @ v, weights)
