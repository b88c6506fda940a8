"""Several models that write one translation together, as a model that any search can drive.

At each step every model says how likely it finds each token, and the mean of that is what the search sees. The mean of
probabilities is the mixture of the models: a token that one of them knows stays likely, even where another never
learned it. The mean of log-probabilities, made to sum to one again, is their product: what one model finds impossible
is so for all.
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
    """Where each model's decoding stands."""

    states: tuple[State, ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> EnsembleState:
        """The same rows of each."""
        return EnsembleState(tuple(state.select(rows, sentences) for state in self.states))


class Ensemble(nn.Module):
    """Models of any kinds and sizes over the same tokens, by the mean of their probabilities or log-probabilities.

    Its logits are the logarithms of what the models find together, up to a constant of each row.
    """

    def __init__(self, models: Iterable[nn.Module], mean: Mean = "probabilities") -> None:
        super().__init__()
        self.models, self.mean = nn.ModuleList(models), mean
        sizes = sorted({len(model.projection()) for model in self._members()})
        if len(sizes) != 1:
            raise SearchError(
                f"models write together only where they choose from the same tokens; these choose from "
                f"{' and '.join(f'{size:,}' for size in sizes) or 'none'}"
            )

    def encode(self, source: Tensor, layout: Layout | None = None) -> tuple[Memory, ...]:
        """What each model reads."""
        return tuple(model.encode(source, layout) for model in self._members())

    def start(self, memories: tuple[Memory, ...]) -> EnsembleState:
        """The state before the first target token, one row a sentence."""
        both = zip(self._members(), memories, strict=True)
        return EnsembleState(tuple(model.start(memory) for model, memory in both))

    def step(self, ids: Tensor, state: EnsembleState) -> tuple[Tensor, EnsembleState]:
        """Logits for what follows ids, and the state after them."""
        both = zip(self._members(), state.states, strict=True)
        logits, states = zip(*(model.step(ids, own) for model, own in both), strict=True)
        return together(logits, self.mean), EnsembleState(states)

    def hidden(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """The last layers of all models, end to end in the last dimension, for `logits`."""
        given = (source, target, source_layout, target_layout)
        return torch.cat([model.hidden(*given) for model in self._members()], dim=-1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Each model's part of `hidden` to its logits, and these to the logits of all together."""
        found, start = [], 0
        for model in self._members():
            end = start + model.projection().shape[1]
            found.append(model.logits(hidden[..., start:end]))
            start = end
        return together(found, self.mean)

    def forward(
        self, source: Tensor, target: Tensor, source_layout: Layout | None = None, target_layout: Layout | None = None
    ) -> Tensor:
        """Teacher forcing: logits for what follows each target token."""
        return self.logits(self.hidden(source, target, source_layout, target_layout))

    def _members(self) -> list[Any]:
        return list(self.models)


def together(logits: Iterable[Tensor], mean: Mean) -> Tensor:
    """What models find together, `[..., V]`, from the logits of each."""
    join = torch.logaddexp if mean == "probabilities" else torch.add
    each = [one.float().log_softmax(-1) for one in logits]
    whole = reduce(join, each)
    return whole - math.log(len(each)) if mean == "probabilities" else whole / len(each)
