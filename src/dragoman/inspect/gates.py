"""What a head is worth: the cross-entropy of given translations with heads removed, and its slope at each head's gate.

Both are exact sums over the same sentences. Removing is a pass for each head; slopes are one pass back for all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.engines.forced_decoding import LOGIT_ROWS, Pairs, length_batches
from dragoman.engines.torch import TorchEngine
from dragoman.inspect.attention_maps import Kind
from dragoman.models import AttentionMaps, Memory, Transformer
from dragoman.nn import Gated, Padded
from dragoman.text.special_tokens import BOS, EOS

ORDER: tuple[Kind, ...] = ("encoder", "decoder", "cross")  # as a sentence passes them
Tick = Callable[[], None]


class Place(NamedTuple):
    """Which head: both numbers are counted from 1."""

    kind: Kind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind} {self.layer}.{self.head}"


@dataclass(frozen=True)
class Forced:
    """A batch of pairs whose translation is given: what is read, and what follows each token that is written."""

    numbers: list[int]
    source: Tensor
    source_layout: Padded
    target: Tensor
    target_layout: Padded
    follows: Tensor  # [N], the tokens and end marks of all the sentences, one after the other
    owner: Tensor  # [N], the row of each


def batches(engine: TorchEngine, pairs: Pairs, few: bool = False) -> Iterator[Forced]:
    """The pairs, those of like length together; `few` at a time where weights or gradients of all heads take room."""
    for here in length_batches(pairs, max(1, engine.batch // 8) if few else engine.batch):
        source, source_layout = engine.sources([pairs[i][0] for i in here])
        target, target_layout = engine.padded([[BOS, *pairs[i][1]] for i in here])
        follows = torch.tensor([token for i in here for token in (*pairs[i][1], EOS)], device=engine.device)
        owner = torch.tensor([row for row, i in enumerate(here) for _ in (*pairs[i][1], EOS)], device=engine.device)
        yield Forced(here, source, source_layout, target, target_layout, follows, owner)


class Gates:
    """A model with a gate on every head. It shares its weights with the one it is made of, which stays as it is."""

    def __init__(self, model: Transformer) -> None:
        shared = {id(weights): weights for weights in (*model.parameters(), *model.buffers())}
        self.model: Transformer = copy.deepcopy(model, shared).eval()
        attentions: dict[Kind, list[Any]] = {
            "encoder": [layer.attention for layer in self.model.encoder],
            "decoder": [layer.attention for layer in self.model.decoder],
            "cross": [layer.cross for layer in self.model.decoder],
        }
        device = model.projection().device
        self.by_kind: dict[Kind, list[Gated]] = {}
        for kind in ORDER:
            self.by_kind[kind] = []
            for attention in attentions[kind]:
                attention.function = Gated(attention.function, torch.ones(attention.n_heads, device=device))
                self.by_kind[kind].append(attention.function)
        self.places = [
            Place(kind, layer, head)
            for kind in ORDER
            for layer, gated in enumerate(self.by_kind[kind], 1)
            for head in range(1, gated.gates.shape[-1] + 1)
        ]

    def remove(self, places: Iterable[Place]) -> None:
        """Close the gates of these heads, and open all others."""
        for gated in self._all():
            gated.gates = torch.ones(gated.gates.shape[-1], device=gated.gates.device)
        for kind, layer, head in places:
            self.by_kind[kind][layer - 1].gates[head - 1] = 0.0

    def costs(self, batch: Forced, memory: Memory | None = None) -> Tensor:
        """`[B]`: the cross-entropy of each sentence, summed over its tokens and its end mark, in nats."""
        model = self.model
        memory = memory if memory is not None else model.encode(batch.source, batch.source_layout)
        hidden = model.decode(batch.target, memory, batch.target_layout)
        hidden = hidden[batch.target_layout.real(hidden.device)]
        each = torch.cat(
            [
                F.cross_entropy(model.logits(hidden[start : start + LOGIT_ROWS]).float(), follows, reduction="none")
                for start in range(0, len(hidden), LOGIT_ROWS)
                for follows in [batch.follows[start : start + LOGIT_ROWS]]
            ]
        )
        nothing = each.new_zeros(len(batch.numbers), dtype=torch.float64)
        return nothing.index_add(0, batch.owner, each.double())

    def slopes(self, batch: Forced) -> Tensor:
        """`[B, places]`: the derivative of each sentence's cost by each head's gate, where all gates are open.

        Every sentence has gates of its own, so that one pass back gives those of all sentences.
        """
        sentences, everyone = len(batch.numbers), list(self._all())
        for gated in everyone:
            gated.gates = torch.ones(sentences, gated.gates.shape[-1], device=gated.gates.device, requires_grad=True)
        with torch.enable_grad():
            total = self.costs(batch).sum()
            found = torch.autograd.grad(total, [gated.gates for gated in everyone])
        self.remove([])
        return torch.cat(found, dim=1).double()

    @torch.no_grad()
    def maps(self, batch: Forced) -> AttentionMaps:
        """What every head looks at."""
        maps = AttentionMaps()
        self.model.hidden(batch.source, batch.target, batch.source_layout, batch.target_layout, maps)
        return maps

    @torch.no_grad()
    def removals(self, batch: Forced, tick: Tick = lambda: None) -> Tensor:
        """`[places]`: how much more the batch costs without each of the heads alone."""
        self.remove([])
        memory = self.model.encode(batch.source, batch.source_layout)
        whole, found = self.costs(batch, memory).sum(), []
        for place in self.places:
            self.remove([place])
            # What the decoder's heads do, the encoder does not see.
            found.append(self.costs(batch, None if place.kind == "encoder" else memory).sum())
            tick()
        self.remove([])
        return torch.stack(found) - whole

    @torch.no_grad()
    def without(self, places: Sequence[Place], work: Iterable[Forced], tick: Tick = lambda: None) -> float:
        """The cost of all batches without these heads."""
        self.remove(places)
        total = 0.0
        for batch in work:
            total += float(self.costs(batch).sum())
            tick()
        self.remove([])
        return total

    def _all(self) -> Iterator[Gated]:
        return (gated for kind in ORDER for gated in self.by_kind[kind])
