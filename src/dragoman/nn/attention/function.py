"""Attention as a function of queries, keys and values (section 3.2): the protocol of all attention variants."""

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
    """The result of attention: `output [B, H, T, V]` and, on request, `weights [B, H, T, S]`."""

    output: Tensor
    weights: Tensor | None = None


class AttentionFunction(Protocol):
    """The function inside multi-head attention."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend from `q [B, H, T, K]` to `k [B, H, S, K]` and `v [B, H, S, V]`; `weights` requests the weights too."""


class MakesKeys(nn.Module, ABC):
    """An attention function that transforms each key separately, so that a cache can store the transformed key.

    The transformation then runs once per key, not at every decoding step.
    """

    @abstractmethod
    def keys(self, k: Tensor, layout: Layout) -> Tensor:
        """Transform keys `k [B, H, S, K]`, in the grid of this layout, for `attend`."""

    @abstractmethod
    def attend(
        self, q: Tensor, keys: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Attend to keys that `keys` has transformed."""

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, sees: Sees, *, dropout: float = 0.0, weights: bool = False
    ) -> Attended:
        """Transform the keys, then attend."""
        return self.attend(q, self.keys(k, sees.keys), v, sees, dropout=dropout, weights=weights)


def made_keys(function: AttentionFunction, k: Tensor, layout: Layout) -> Tensor:
    """The keys in the form that is cached for this function."""
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
    """Attend to keys in their cached form; in a step that sees few of them, to those alone."""
    if sees.step is not None and sees.step.picked is not None and not weights:
        keys, v, sees = keys.index_select(2, sees.step.picked), v.index_select(2, sees.step.picked), sees.step
    ask = function.attend if isinstance(function, MakesKeys) else function
    return ask(q, keys, v, sees, dropout=dropout, weights=weights)


def softmax_of_shown(scores: Tensor, shown: Tensor | None) -> Tensor:
    """Weights in float32 that sum to one over the visible keys; all zero if no key is visible."""
    scores = scores.float()
    if shown is None:
        return scores.softmax(-1)
    scores = scores.masked_fill(~shown, torch.finfo(scores.dtype).min)  # finite: a row of -inf alone gives NaN
    return scores.softmax(-1).masked_fill(~shown, 0.0)


def weigh(scores: Tensor, v: Tensor, sees: Sees, dropout: float = 0.0) -> Attended:
    """Softmax over the visible keys, then the weighted sum of the values; common to all kinds of attention.

    A query that sees nothing gives zeros, and its gradients are zeros too.
    """
    weights = softmax_of_shown(scores, sees.dense(scores.device)).to(v.dtype)
    return Attended(F.dropout(weights, dropout) @ v if dropout else weights @ v, weights)
