"""The importance of heads: the loss with heads removed, and its gradient at a gate on each head.

Both are exact sums over the same sentences. Removal takes one pass per head; gradients take one backward pass for all.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.engines.forced import AttentionKind
from dragoman.engines.torch_forced import ForcedBatch
from dragoman.models import AttentionMaps, Memory, Transformer
from dragoman.nn import Gated, MultiHeadSelfAttention

KIND_ORDER: tuple[AttentionKind, ...] = ("encoder", "decoder", "cross")  # in the order of computation
Advance = Callable[[], None]


class HeadId(NamedTuple):
    """A head; layer and head count from 1."""

    kind: AttentionKind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind} {self.layer}.{self.head}"


class GatedModel:
    """A copy of a model with a gate on every head; it shares its weights with the original, which does not change."""

    def __init__(self, model: Transformer) -> None:
        shared = {id(weights): weights for weights in (*model.parameters(), *model.buffers())}
        self.model: Transformer = copy.deepcopy(model, shared).eval()
        attentions: dict[AttentionKind, list[Any]] = {
            "encoder": [layer.attention for layer in self.model.encoder],
            "decoder": [x.attention for x in self.model.decoder if isinstance(x.attention, MultiHeadSelfAttention)],
            "cross": [layer.cross for layer in self.model.decoder],
        }
        device = model.projection().device
        for attention in chain(*attentions.values()):
            attention.function = Gated(attention.function, torch.ones(attention.n_heads, device=device))
        self.by_kind = {kind: [attention.function for attention in attentions[kind]] for kind in KIND_ORDER}
        self.heads = [
            HeadId(kind, layer, head)
            for kind in KIND_ORDER
            for layer, gated in enumerate(self.by_kind[kind], 1)
            for head in range(1, gated.gates.shape[-1] + 1)
        ]

    def remove(self, heads: Iterable[HeadId]) -> None:
        """Close the gates of these heads, and open all others."""
        for gated in self._all():
            gated.gates = torch.ones(gated.gates.shape[-1], device=gated.gates.device)
        for kind, layer, head in heads:
            self.by_kind[kind][layer - 1].gates[head - 1] = 0.0

    def losses(self, batch: ForcedBatch, memory: Memory | None = None) -> Tensor:
        """`[B]`: the cross-entropy of each sentence in nats, summed over its tokens, EOS included."""
        model = self.model
        memory = memory if memory is not None else model.encode(batch.source, batch.source_layout)
        hidden = model.decode(batch.target, memory, batch.target_layout)
        parts = batch.rows_and_labels(hidden)
        losses = [F.cross_entropy(model.logits(rows).float(), labels, reduction="none") for rows, labels in parts]
        each = torch.cat(losses)
        zeros = each.new_zeros(len(batch.indices), dtype=torch.float64)
        return zeros.index_add(0, batch.rows, each.double())

    def gradients(self, batch: ForcedBatch) -> Tensor:
        """`[B, heads]`: the derivative of each sentence's loss with respect to each head's gate, with all gates open.

        Every sentence has its own gates, so one backward pass gives the derivatives of all sentences.
        """
        sentences, everything = len(batch.indices), list(self._all())
        for gated in everything:
            gated.gates = torch.ones(sentences, gated.gates.shape[-1], device=gated.gates.device, requires_grad=True)
        with torch.enable_grad():
            total = self.losses(batch).sum()
            found = torch.autograd.grad(total, [gated.gates for gated in everything])
        self.remove([])
        return torch.cat(found, dim=1).double()

    @torch.no_grad()
    def attention_maps(self, batch: ForcedBatch) -> AttentionMaps:
        """The attention weights of every head."""
        maps = AttentionMaps()
        self.model.hidden(batch.source, batch.target, batch.source_layout, batch.target_layout, maps)
        return maps

    @torch.no_grad()
    def ablations(self, batch: ForcedBatch, advance: Advance = lambda: None) -> Tensor:
        """`[heads]`: the increase of the batch's loss when only this head is removed."""
        self.remove([])
        memory = self.model.encode(batch.source, batch.source_layout)
        complete, found = self.losses(batch, memory).sum(), []
        for head in self.heads:
            self.remove([head])
            # The encoder does not depend on the decoder's heads.
            found.append(self.losses(batch, None if head.kind == "encoder" else memory).sum())
            advance()
        self.remove([])
        return torch.stack(found) - complete

    @torch.no_grad()
    def loss_without(
        self, heads: Sequence[HeadId], batches: Iterable[ForcedBatch], advance: Advance = lambda: None
    ) -> float:
        """The loss of all batches without these heads."""
        self.remove(heads)
        total = 0.0
        for batch in batches:
            total += float(self.losses(batch).sum())
            advance()
        self.remove([])
        return total

    def _all(self) -> Iterator[Gated]:
        return (gated for kind in KIND_ORDER for gated in self.by_kind[kind])
