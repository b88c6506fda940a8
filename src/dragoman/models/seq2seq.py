"""What training and search ask of a model, whatever is inside it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, Self, TypeVar

from torch import Tensor

from dragoman.nn import Layout

S = TypeVar("S", bound="State")


@dataclass(frozen=True)
class Memory:
    """What the encoder made of the sources: `states [B, S, D]` or `[N, D]`, and how they are laid out."""

    states: Tensor
    layout: Layout


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights, a tensor `[B, H, T, S]` a layer, for each of the three uses of section 3.2.3.

    Hand an empty one to a call, and the call fills it; what a model does not have stays empty.
    """

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)


class State(Protocol):
    """Where decoding stands, for every row of the batch. The caller owns it, and an old one stays good after a step."""

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> Self:
        """The state whose row i is row `rows[i]` of this one.

        Every sentence has the same number of rows (its beams), side by side. `rows` may hold a row more than once, and
        may change how many rows a sentence has. `sentences` names the sentences that stay, where some leave the batch.
        """


class Seq2Seq(Protocol[S]):
    """A model that is trained by `__call__` and decoded by `encode`, `start` and `step`."""

    def __call__(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Teacher forcing: logits for what follows each target token."""

    def hidden(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """The same up to the last layer: `logits(hidden(...))` is what a call gives."""

    def logits(self, hidden: Tensor) -> Tensor:
        """`[..., D]` to `[..., V]`."""

    def projection(self) -> Tensor:
        """The matrix `[V, D]` of `logits`, for a loss that never holds all the logits."""

    def projection_bias(self) -> Tensor | None:
        """What `logits` adds for each token `[V]`, if anything."""

    def encode(self, source: Tensor, layout: Layout | None = None) -> Memory:
        """Read the sources."""

    def start(self, memory: Memory) -> S:
        """The state before the first target token, one row a sentence."""

    def step(self, ids: Tensor, state: S) -> tuple[Tensor, S]:
        """Logits `[B, V]` for what follows ids `[B]`, and the state after them; `[B, T, V]` for ids `[B, T]`."""
