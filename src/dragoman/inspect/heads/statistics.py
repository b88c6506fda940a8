"""Statistics of what each head attends to, accumulated over the batches of a corpus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor

from dragoman.engines.forced import AttentionKind
from dragoman.nn import Padded, Rule, look

MAX_OFFSET: Final = 5  # tokens; larger offsets are not counted
MIN_UNIFORMITY: Final = 0.95  # share of the maximum entropy from which weights count as uniform
MIN_SHARE: Final = 0.5  # share of the queries or of the weight from which a head is named after a behavior


@dataclass(frozen=True)
class HeadStatistics:
    """Means over all queries of a corpus; shares are from 0 to 1, and None if they do not apply.

    The position of a query among the keys is its own in self-attention, and the nearest point of the diagonal in
    cross-attention.
    """

    offset: float  # weighted mean of key position minus query position
    offset_deviation: float  # its standard deviation
    entropy: float  # in nats
    uniformity: float | None  # entropy divided by that of equal weights on all visible keys
    confidence: float  # the maximum weight
    offsets: Mapping[int, float]  # how often the maximum weight is at this offset, among queries that have such a key
    end: float | None  # weight on the EOS token,
    first: float  # on the first key,
    punctuation: float  # on tokens without a letter or digit,
    same_token: float | None  # on the same token at other positions, among queries with one,
    rarest_token: float | None  # and on the token of the sentence that is rarest in the corpus
    diagonal: float | None  # how often the maximum weight is within one token of the diagonal
    alignment_agreement: float | None  # how often it is where the alignment head attends, at the better of two steps
    alignment_step: Literal["writes", "reads"] | None = None  # the better step


@dataclass(frozen=True)
class AttentionContext:
    """Queries `[B, T]` and keys `[B, S]` of a batch, the same for every head, without padding.

    A query that sees a single key (the first in the decoder's self-attention) is left out. `marked` has, for each kind
    of key, a mask `[B, 1 or T, S]` and the queries that count for it, `[B, T]`.
    """

    valid: Tensor  # [B, T], the queries that count
    visible: Tensor  # [B, T, S], the keys that each query sees
    positions: Tensor  # [B, T], the position of each query among the keys, possibly between two
    marked: dict[str, tuple[Tensor, Tensor]]
    self_attention: bool
    aligned: Tensor | None = None  # [B, T - 1], the key that the alignment head chooses for each target token, or -1


def attention_context(
    kind: AttentionKind,
    queries: tuple[Tensor, Padded],
    keys: tuple[Tensor, Padded],
    rule: Rule,
    punctuation: Tensor,
    frequencies: Tensor | None,
    aligned: Tensor | None = None,
) -> AttentionContext:
    """The context from the ids and layouts of both sides.

    `punctuation [V]` masks tokens of the keys' vocabulary without a letter or digit; `frequencies [V]` counts tokens.
    The keys of the decoder's self-attention end with the last token, all others with the EOS token.
    """
    (query_ids, query_layout), (key_ids, key_layout) = queries, keys
    device, size = key_ids.device, key_layout.size
    lengths = torch.full((len(key_ids),), size, device=device) if key_layout.lengths is None else key_layout.lengths
    real = query_layout.real(device)
    valid = torch.ones_like(query_ids, dtype=torch.bool) if real is None else real
    dense = look(query_layout, key_layout, rule, device).dense(device)
    everything = torch.ones(len(key_ids), query_ids.shape[1], size, dtype=torch.bool, device=device)
    # The causal mask does not limit padding queries, and padding is not a key.
    visible = (everything if dense is None else everything & dense[:, 0]) & (
        torch.arange(size, device=device) < lengths[:, None]
    )[:, None]
    last, valid = valid.sum(1, keepdim=True) - 1, valid & (visible.sum(-1) > 1)
    column, self_attention = torch.arange(size, device=device).expand(len(key_ids), size), kind != "cross"
    positions = torch.arange(query_ids.shape[1], device=device).expand(query_ids.shape).double()
    if not self_attention:
        # from the first token to the EOS token, on both sides
        positions = positions * (lengths[:, None] - 1) / last.clamp(min=1)
    marked = {"first": ((column == 0)[:, None], valid), "punctuation": (punctuation[key_ids][:, None], valid)}
    if kind != "decoder":
        marked["end"] = ((column == lengths[:, None] - 1)[:, None], valid)
    if self_attention:
        elsewhere = (query_ids[:, :, None] == key_ids[:, None, :]) & visible & (column[:, None] != column[:, :, None])
        marked["same_token"] = (elsewhere, valid & elsewhere.any(-1))
    if frequencies is not None:
        counts = torch.where(column < lengths[:, None] - 1, frequencies[key_ids], torch.inf)  # without the EOS token
        rarest = (column == counts.argmin(1, keepdim=True)) & (counts < torch.inf)
        marked["rarest_token"] = (rarest[:, None], valid & rarest.any(1, keepdim=True))
    return AttentionContext(valid, visible, positions, marked, self_attention, aligned)


def aligned_keys(cross: Sequence[Tensor], head: Any, lengths: Tensor, tokens: Tensor, n_language_tokens: int) -> Tensor:
    """`[B, T - 1]`: the key that the alignment head chooses for each target token; -1 for special tokens and padding.

    `lengths` counts the keys with EOS, `tokens` the target tokens; the first keys may be language tokens.
    """
    layer = cross[head.layer]
    rows = layer.mean(1) if head.head is None else layer[:, head.head]
    found = (rows[:, :-1] if head.step == "writes" else rows[:, 1:]).argmax(-1)
    valid = torch.arange(found.shape[1], device=found.device) < tokens[:, None]
    return torch.where(valid & (found < lengths[:, None] - 1) & (found >= n_language_tokens), found, -1)


class StatisticsAccumulator:
    """Sums for every layer and head of one kind of attention, `[L, H]` in double precision."""

    def __init__(self, layers: int, heads: int) -> None:
        self.layers, self.heads = layers, heads
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}

    def add(self, maps: Sequence[Tensor], context: AttentionContext) -> None:
        """Add a batch: the weights `[B, H, T, S]` of each layer."""
        for layer, weights in enumerate(maps):
            self._add_layer(layer, weights.double(), context)

    def statistics(self, layer: int, head: int) -> HeadStatistics:
        """The means of one head; layer and head count from 0."""

        def mean(name: str) -> float | None:
            count = self.counts.get(name, 0)
            return float(self.sums[name][layer, head]) / count if count else None

        def mean_or_zero(name: str) -> float:
            return mean(name) or 0.0

        step: Literal["writes", "reads"] | None = None
        if mean("writes") is not None:
            step = "writes" if mean_or_zero("writes") >= mean_or_zero("reads") else "reads"
        offset = mean_or_zero("offset")
        offsets = range(-MAX_OFFSET, MAX_OFFSET + 1)
        return HeadStatistics(
            offset=offset,
            offset_deviation=max(0.0, mean_or_zero("square") - offset**2) ** 0.5,
            entropy=mean_or_zero("entropy"),
            uniformity=mean("uniformity"),
            confidence=mean_or_zero("confidence"),
            offsets={n: share for n in offsets if (share := mean(f"at {n}")) is not None},
            end=mean("end"),
            first=mean_or_zero("first"),
            punctuation=mean_or_zero("punctuation"),
            same_token=mean("same_token"),
            rarest_token=mean("rarest_token"),
            diagonal=mean("diagonal"),
            alignment_agreement=None if step is None else mean_or_zero(step),
            alignment_step=step,
        )

    def _add_layer(self, layer: int, weights: Tensor, context: AttentionContext) -> None:
        valid, best = context.valid, weights.argmax(-1)  # [B, H, T]
        keys = torch.arange(weights.shape[-1], device=weights.device)
        distance = keys - context.positions[:, :, None]  # [B, T, S]
        entropy, n_visible = torch.special.entr(weights).sum(-1), context.visible.sum(-1)
        self._count(layer, "offset", (weights * distance[:, None]).sum(-1), valid)
        self._count(layer, "square", (weights * distance[:, None] ** 2).sum(-1), valid)
        self._count(layer, "entropy", entropy, valid)
        self._count(layer, "uniformity", entropy / n_visible.clamp(min=2).log()[:, None], valid)
        self._count(layer, "confidence", weights.amax(-1), valid)
        for name, (marked, queries) in context.marked.items():
            self._count(layer, name, (weights * marked[:, None]).sum(-1), queries)
        if context.self_attention:
            own = torch.arange(valid.shape[1], device=valid.device)
            for offset in range(-MAX_OFFSET, MAX_OFFSET + 1):
                key = (own + offset).clamp(0, len(keys) - 1)
                sees = context.visible[:, own, key] & (own + offset == key)
                self._count(layer, f"at {offset}", best == own + offset, valid & sees)
        else:
            self._count(layer, "diagonal", (best - context.positions[:, None]).abs() <= 1, valid)
        if context.aligned is not None:
            aligned = context.aligned[:, None]
            self._count(layer, "writes", best[:, :, :-1] == aligned, context.aligned >= 0)
            self._count(layer, "reads", best[:, :, 1:] == aligned, context.aligned >= 0)

    def _count(self, layer: int, name: str, values: Tensor, queries: Tensor) -> None:
        """Add the values `[B, H, T]` of these queries `[B, T]`; every layer has the same queries."""
        sums = self.sums.setdefault(name, torch.zeros(self.layers, self.heads, dtype=torch.float64))
        sums[layer] += torch.where(queries[:, None], values.double(), 0.0).sum((0, 2)).cpu()
        if layer == 0:
            self.counts[name] = self.counts.get(name, 0) + int(queries.sum())


def label_head(statistics: HeadStatistics | None, first: str = "the first token") -> str:
    """A short description; `first` names the first key."""
    if statistics is None:
        return "mixes positions"
    if statistics.uniformity is not None and statistics.uniformity >= MIN_UNIFORMITY:
        return "spreads evenly"
    if statistics.alignment_agreement is not None and statistics.alignment_agreement >= MIN_SHARE:
        return f"aligns {format_share(statistics.alignment_agreement)}"
    share, words = max(candidates(statistics, first))
    return f"{'' if share >= MIN_SHARE else 'mixed; '}{words} {format_share(share)}"


def candidates(statistics: HeadStatistics, first: str) -> list[tuple[float, str]]:
    """All candidate names of a head, with their shares."""
    end, punctuation = statistics.end or 0.0, statistics.punctuation
    found = [(statistics.first, first), (punctuation, "punctuation"), (end, "the EOS token")]
    if max(end, punctuation) < MIN_SHARE <= end + punctuation:
        found.append((end + punctuation, "punctuation and end"))
    found += [(share, describe_offset(offset)) for offset, share in statistics.offsets.items()]
    named = ((statistics.diagonal, "along the diagonal"), (statistics.rarest_token, "the rarest token"))
    return found + [(share, words) for share, words in named if share is not None]


def describe_offset(offset: int) -> str:
    """A relative position as text."""
    near = {0: "itself", -1: "the previous token", 1: "the next token"}
    return near.get(offset) or f"{abs(offset)} tokens {'back' if offset < 0 else 'ahead'}"


def format_share(share: float) -> str:
    """A share as a percentage in parentheses."""
    return f"({100 * share:.0f} %)"
