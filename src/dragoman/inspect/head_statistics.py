"""Sums over all that the heads of a model look at, batch by batch: what `Behavior` is the mean of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from dragoman.inspect.attention_maps import Kind
from dragoman.inspect.head_labels import FAR, Behavior
from dragoman.nn import Padded, Rule, look


@dataclass(frozen=True)
class Scene:
    """Who looks at what, which is the same for every head: queries `[B, T]` and keys `[B, S]`, padding left out.

    A query that sees a single key has no choice, and is left out too: the first of a decoder's own attention.
    `marked` has for each kind of key which ones it is, `[B, 1 or T, S]`, and whose share counts, `[B, T]`.
    """

    real: Tensor  # [B, T], the queries that count
    shown: Tensor  # [B, T, S], what each query may look at
    places: Tensor  # [B, T], where each query stands among the keys, between two of them perhaps
    marked: dict[str, tuple[Tensor, Tensor]]
    within: bool  # queries and keys are the same sentence
    goals: Tensor | None = None  # [B, T - 1], where the model's pointer points at each written token; -1 for nowhere


def scene_of(
    kind: Kind,
    queries: tuple[Tensor, Padded],
    keys: tuple[Tensor, Padded],
    rule: Rule,
    punctuation: Tensor,
    rarity: Tensor | None,
    goals: Tensor | None = None,
) -> Scene:
    """From the ids of both sides and how they lie.

    `punctuation [V]` says which tokens of the keys' vocabulary have no letter or figure, `rarity [V]` how often each
    comes. The keys of a decoder's own attention end with the last token, all others with the end mark.
    """
    (asking, asking_layout), (asked, asked_layout) = queries, keys
    device, size = asked.device, asked_layout.size
    lengths = torch.full((len(asked),), size, device=device) if asked_layout.lengths is None else asked_layout.lengths
    real = torch.ones_like(asking, dtype=torch.bool)
    if asking_layout.lengths is not None:
        real = torch.arange(asking.shape[1], device=device) < asking_layout.lengths[:, None]
    dense = look(asking_layout, asked_layout, rule, device).dense(device)
    everywhere = torch.ones(len(asked), asking.shape[1], size, dtype=torch.bool, device=device)
    # The triangle hides nothing from padding, and padding is no key.
    shown = (everywhere if dense is None else everywhere & dense[:, 0]) & (
        torch.arange(size, device=device) < lengths[:, None]
    )[:, None]
    steps, real = real.sum(1, keepdim=True) - 1, real & (shown.sum(-1) > 1)
    column, within = torch.arange(size, device=device).expand(len(asked), size), kind != "cross"
    places = torch.arange(asking.shape[1], device=device).expand(asking.shape).double()
    if not within:
        # from the first token to the end mark, on both sides
        places = places * (lengths[:, None] - 1) / steps.clamp(min=1)
    marked = {
        "first": ((column == 0)[:, None], real),
        "punctuation": (punctuation[asked][:, None], real),
    }
    if kind != "decoder":
        marked["end"] = ((column == lengths[:, None] - 1)[:, None], real)
    if within:
        elsewhere = (asking[:, :, None] == asked[:, None, :]) & shown & (column[:, None] != column[:, :, None])
        marked["same"] = (elsewhere, real & elsewhere.any(-1))
    if rarity is not None:
        often = torch.where(column < lengths[:, None] - 1, rarity[asked], torch.inf)  # without the end mark
        rarest = (column == often.argmin(1, keepdim=True)) & (often < torch.inf)
        marked["rarest"] = (rarest[:, None], real & rarest.any(1, keepdim=True))
    return Scene(real, shown, places, marked, within, goals)


def pointed_goals(cross: Sequence[Tensor], pointer: Any, lengths: Tensor, tokens: Tensor, lead: int) -> Tensor:
    """`[B, T - 1]`: the key at which the pointer looks for each written token; -1 at marks, and after the last token.

    `lengths` count the keys with the end mark, `tokens` those written, and `lead` are the marks before a source.
    """
    layer = cross[pointer.layer]
    rows = layer.mean(1) if pointer.head is None else layer[:, pointer.head]
    found = (rows[:, :-1] if pointer.step == "writes" else rows[:, 1:]).argmax(-1)
    counted = torch.arange(found.shape[1], device=found.device) < tokens[:, None]
    return torch.where(counted & (found < lengths[:, None] - 1) & (found >= lead), found, -1)


class Tally:
    """Sums for every layer and head of one use of attention, `[L, H]` in double precision."""

    def __init__(self, layers: int, heads: int) -> None:
        self.layers, self.heads = layers, heads
        self.sums: dict[str, Tensor] = {}
        self.counts: dict[str, int] = {}

    def add(self, maps: Sequence[Tensor], scene: Scene) -> None:
        """A batch: the weights `[B, H, T, S]` of each layer."""
        for layer, weights in enumerate(maps):
            self._add_layer(layer, weights.double(), scene)

    def behavior(self, layer: int, head: int) -> Behavior:
        """The means of one head, counted from 0."""

        def mean(name: str) -> float | None:
            count = self.counts.get(name, 0)
            return float(self.sums[name][layer, head]) / count if count else None

        def known(name: str) -> float:
            return mean(name) or 0.0

        step: Literal["writes", "reads"] | None = None
        if mean("writes") is not None:
            step = "writes" if known("writes") >= known("reads") else "reads"
        offset = known("offset")
        return Behavior(
            offset=offset,
            spread=max(0.0, known("square") - offset**2) ** 0.5,
            entropy=known("entropy"),
            evenness=mean("evenness"),
            confidence=known("confidence"),
            at={far: share for far in range(-FAR, FAR + 1) if (share := mean(f"at {far}")) is not None},
            end=mean("end"),
            first=known("first"),
            punctuation=known("punctuation"),
            same=mean("same"),
            rarest=mean("rarest"),
            diagonal=mean("diagonal"),
            aligns=None if step is None else known(step),
            step=step,
        )

    def _add_layer(self, layer: int, weights: Tensor, scene: Scene) -> None:
        real, best = scene.real, weights.argmax(-1)  # [B, H, T]
        keys = torch.arange(weights.shape[-1], device=weights.device)
        away = keys - scene.places[:, :, None]  # [B, T, S]
        entropy, seen = torch.special.entr(weights).sum(-1), scene.shown.sum(-1)
        self._count(layer, "offset", (weights * away[:, None]).sum(-1), real)
        self._count(layer, "square", (weights * away[:, None] ** 2).sum(-1), real)
        self._count(layer, "entropy", entropy, real)
        self._count(layer, "evenness", entropy / seen.clamp(min=2).log()[:, None], real)
        self._count(layer, "confidence", weights.amax(-1), real)
        for name, (marked, who) in scene.marked.items():
            self._count(layer, name, (weights * marked[:, None]).sum(-1), who)
        if scene.within:
            own = torch.arange(real.shape[1], device=real.device)
            for far in range(-FAR, FAR + 1):
                there = (own + far).clamp(0, len(keys) - 1)
                sees = scene.shown[:, own, there] & (own + far == there)
                self._count(layer, f"at {far}", best == own + far, real & sees)
        else:
            self._count(layer, "diagonal", (best - scene.places[:, None]).abs() <= 1, real)
        if scene.goals is not None:
            goals = scene.goals[:, None]
            self._count(layer, "writes", best[:, :, :-1] == goals, scene.goals >= 0)
            self._count(layer, "reads", best[:, :, 1:] == goals, scene.goals >= 0)

    def _count(self, layer: int, name: str, values: Tensor, who: Tensor) -> None:
        """Add the values `[B, H, T]` of those queries `[B, T]` alone; every layer has the same queries."""
        sums = self.sums.setdefault(name, torch.zeros(self.layers, self.heads, dtype=torch.float64))
        sums[layer] += torch.where(who[:, None], values.double(), 0.0).sum((0, 2)).cpu()
        if layer == 0:
            self.counts[name] = self.counts.get(name, 0) + int(who.sum())
