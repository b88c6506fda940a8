"""The interface that training and search require of every model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from torch import Tensor

from dragoman.nn import Layout

S = TypeVar("S", bound="State")


@dataclass(frozen=True)
class Memory:
    """The encoder's output: `states [B, S, D]` or `[N, D]`, and their layout."""

    states: Tensor
    layout: Layout


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights, one tensor `[B, H, T, S]` per layer, for each of the three uses of section 3.2.3.

    Pass an empty one to a call to have it filled; what a model does not have stays empty.
    """

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)


class State(Protocol):
    """Decoding state of every row of the batch. The caller owns it, and an old one stays valid after a step."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> Self:
        """A state whose row i is row `rows[i]` of this one.

        Every sentence has the same number of adjacent rows (its beams). `rows` may repeat a row, and may change the
        number of rows per sentence. `sentences` lists the sentences to keep when some leave the batch.
        """


class Seq2Seq(Protocol[S]):
    """A model that is trained with `__call__` and decoded with `encode`, `start` and `step`."""

    def __call__(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Teacher forcing: next-token logits at each target token."""

    def hidden(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """The output of the last layer: `logits(hidden(...))` equals a call."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Project `[..., D]` to `[..., V]`."""

    def projection(self) -> Tensor:
        """The matrix `[V, D]` of `logits`, for a loss that never holds all the logits."""

    def projection_bias(self) -> Tensor | None:
        """The bias `[V]` that `logits` adds, if any."""

    def encode(self, source: Tensor, layout: Layout | None = None) -> Memory:
        """Encode the sources."""

    def start(self, memory: Memory) -> S:
        """The state before the first target token, one row per sentence."""

    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """Next-token logits `[B, V]` after ids `[B]`, and the new state; `[B, T, V]` for ids `[B, T]`."""
