"""Attention as a function of queries, keys and values (section 3.2), and the seam in which its rivals stand."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.nn.attention.sees import Sees
from dragoman.nn.layout import Layout


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


class MakesKeys(nn.Module, ABC):
    """An attention function that makes something of each key by itself, which a cache may hold in the key's place.

    So it is made once, and not again at each step of decoding.
    """

    @abstractmethod
    def keys(self, k: Tensor, layout: Layout) -> Tensor:
        """What `attend` takes for keys `k [B, H, S, K]` that lie in the grid of this layout."""

    @abstractmethod
    def attend(
        self, q: Tensor, keys: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """As a call does, with what `keys` has made."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Both, one after the other."""
        return self.attend(q, self.keys(k, sees.keys), v, sees, dropout=dropout, weights=weights)


def made_keys(function: AttentionFunction, k: Tensor, layout: Layout) -> Tensor:
    """The keys in the form in which they are remembered for a function."""
    return function.keys(k, layout) if isinstance(function, MakesKeys) else k


def attend_made(
    function: AttentionFunction,
    q: Tensor,
    keys: Tensor,
    v: Tensor,
    sees: Sees,
    *,
    dropout: float = 0.0,
    weights: bool = False,
) -> Attended:
    """Attend to keys in that form."""
    ask = function.attend if isinstance(function, MakesKeys) else function
    return ask(q, keys, v, sees, dropout=dropout, weights=weights)


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
