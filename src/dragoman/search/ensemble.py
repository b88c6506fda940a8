"""An ensemble with the interface of a single model, for any search.

At each step the search sees the mean of the models' predictions. The mean of probabilities is a mixture: a token that
one model finds likely stays likely, even where another never learned it. The mean of log-probabilities, renormalized,
is a product: a token that one model finds impossible is impossible.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.errors import SearchError
from dragoman.models import Memory, State
from dragoman.nn import Layout
from dragoman.search.types import Mean


@dataclass(frozen=True)
class EnsembleState:
    """The decoding state of each model."""

    states: tuple[State, ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> EnsembleState:
        """The same rows of each state."""
        return EnsembleState(tuple(state.select(rows, sentences) for state in self.states))


class Ensemble(nn.Module):
    """Models of any kinds and sizes over the same vocabulary.

    Its logits are the logarithms of the mean prediction, up to a constant in each row.
    """

    def __init__(self, models: Iterable[nn.Module], mean: Mean = "probabilities") -> None:
        super().__init__()
        self.models, self.mean = nn.ModuleList(models), mean
        sizes = sorted({len(model.projection()) for model in self._members()})
        if len(sizes) != 1:
            found = " and ".join(f"{size:,}" for size in sizes) or "no"
            message = f"the models of an ensemble need the same target vocabulary; these have {found} tokens"
            raise SearchError(message, code="vocabulary_mismatch")

    def encode(self, source: Tensor, layout: Layout | None = None) -> tuple[Memory, ...]:
        """The memory of each model."""
        return tuple(model.encode(source, layout) for model in self._members())

    def start(self, memories: tuple[Memory, ...]) -> EnsembleState:
        """The state before the first target token, one row per sentence."""
        both = zip(self._members(), memories, strict=True)
        return EnsembleState(tuple(model.start(memory) for model, memory in both))

    def step(self, ids: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """Next-token logits after ids, and the new state."""
        both = zip(self._members(), state.states, strict=True)
        logits, states = zip(*(model.step(ids, own) for model, own in both), strict=True)
        return combine(logits, self.mean), EnsembleState(states)

    def hidden(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """The last layers of all models, concatenated in the last dimension, for `logits`."""
        arguments = (source, target, source_layout, target_layout)
        return torch.cat([model.hidden(*arguments) for model in self._members()], dim=-1)

    def logits(self, hidden: Tensor) -> Tensor:
        """The ensemble's logits from the models' parts of `hidden`."""
        found, start = [], 0
        for model in self._members():
            end = start + model.projection().shape[1]
            found.append(model.logits(hidden[..., start:end]))
            start = end
        return combine(found, self.mean)

    def forward(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Teacher forcing: next-token logits at each target token."""
        return self.logits(self.hidden(source, target, source_layout, target_layout))

    def _members(self) -> list[Any]:
        return list(self.models)


def combine(logits: Iterable[Tensor], mean: Mean) -> Tensor:
    """The ensemble's logits `[..., V]` from the logits of each model."""
    join = torch.logaddexp if mean == "probabilities" else torch.add
    each = [one.float().log_softmax(-1) for one in logits]
    total = reduce(join, each)
    return total - math.log(len(each)) if mean == "probabilities" else total / len(each)
