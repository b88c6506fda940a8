# ruff: noqa: N801  # rules with parameters read like plain functions: both(causal, window(64))
"""What each query sees (section 3.2.3), with one polarity: True means visible.

A rule takes two positions, the query's and the key's, each counted within its own sentence, and returns whether the
query sees the key. Rules combine; `look` joins a rule with the ends of the sentences, and is the only place where
masks are built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

import torch
from torch import Tensor

from dragoman.nn.layout import Layout, Packed

Rule = Callable[[Tensor, Tensor], Tensor]

# Use a band or gathered keys only where sentences may be this many times longer than what is seen, and longer than this
# many tokens: for shorter sentences a mask is faster, by two to seven times at 20 to 80 tokens on a CPU.
WORTH: Final = 8
SHORT: Final = 200

# The hash of `scattered`: C. Wellons' "lowbias32" of a sum of multiples.
LOW_FACTOR, HIGH_FACTOR, SEED_FACTOR = 0x2545F491, 0x9E3779B1, 0x7FEB352D
HASH_ROUNDS: Final = ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1))  # shifts and multipliers


def everything(query: Tensor, key: Tensor) -> Tensor:
    """Every position, as in the encoder and from the decoder to the source."""
    return torch.ones_like(query, dtype=torch.bool) & torch.ones_like(key, dtype=torch.bool)


def causal(query: Tensor, key: Tensor) -> Tensor:
    """The query's own position and all earlier ones, as in the decoder."""
    return key <= query


@dataclass(frozen=True)
class window:
    """At most `radius` positions away on either side: the restricted attention of section 4."""

    radius: int

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the distance is within the radius."""
        return (query - key).abs() <= self.radius


@dataclass(frozen=True)
class first:
    """The first `count` positions see all and are seen by all: the global tokens of Longformer and BigBird."""

    count: int

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the query or the key is among the first `count` positions."""
        return (query < self.count) | (key < self.count)


@dataclass(frozen=True)
class scattered:
    """Random pairs, the same every time (Zaheer et al., 2020): on average `count` of the positions before a query.

    Visibility is a hash of the two positions, with probability count / (the later position + 1). The pattern therefore
    does not depend on the sentence length, and step-by-step decoding sees the same pairs as teacher forcing.
    """

    count: int
    seed: int = 0

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the pair was drawn."""
        low, high = torch.minimum(query, key), torch.maximum(query, key)
        bits = (low * LOW_FACTOR + high * HIGH_FACTOR + self.seed * SEED_FACTOR) & 0xFFFFFFFF
        for shift, factor in HASH_ROUNDS:
            bits = ((bits ^ (bits >> shift)) * factor) & 0xFFFFFFFF
        return bits * (high + 1) < min(self.count, 1 << 30) << 32  # the cap is above any length, and avoids overflow


@dataclass(frozen=True, init=False)
class both:
    """Visible under all of the rules."""

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        object.__setattr__(self, "rules", rules)

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether every rule lets the query see the key."""
        return reduce(torch.logical_and, (rule(query, key) for rule in self.rules))


@dataclass(frozen=True, init=False)
class either:
    """Visible under any of the rules."""

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        object.__setattr__(self, "rules", rules)

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether at least one rule lets the query see the key."""
        return reduce(torch.logical_or, (rule(query, key) for rule in self.rules))


def reach(rule: Rule) -> int | None:
    """The largest distance that a rule sees, if it is bounded."""
    match rule:
        case window(radius):
            return radius
        case both(rules):
            known = [far for far in [reach(rule) for rule in rules] if far is not None]
            return min(known) if known else None
        case _:
            return None


@dataclass(frozen=True)
class Sparsity:
    """A rule in the form that lets kernels list the visible keys instead of asking about every pair.

    A query sees at most `radius` positions to either side (none if -1), the first `n_first` positions and the pairs of
    `random`; the first `n_first` positions see all. If `causal`, nobody sees a later position.
    """

    radius: int = -1
    n_first: int = 0
    random: scattered | None = None
    causal: bool = False

    @property
    def cost(self) -> int:
        """About how many keys a query is compared with, up to a small factor."""
        return max(self.radius, 0) + self.n_first + 8 * (0 if self.random is None else self.random.count)

    @property
    def rule(self) -> Rule:
        """The same as a rule."""
        parts: list[Rule] = [window(self.radius), first(self.n_first)]
        shown = either(*parts) if self.random is None else either(*parts, self.random)
        return both(causal, shown) if self.causal else shown


def sparsity(rule: Rule) -> Sparsity | None:
    """A rule that consists of windows, first positions, random pairs and causality, as such; None for other rules."""
    match rule:
        case window(radius):
            return Sparsity(radius=radius)
        case first(count):
            return Sparsity(n_first=count)
        case scattered(count):
            return Sparsity(random=rule if count else None)
        case either(rules):
            parts = [part for part in map(sparsity, rules) if part is not None and not part.causal]
            random = {part.random for part in parts if part.random is not None}
            if not rules or len(parts) < len(rules) or len(random) > 1:
                return None
            radius, n_first = max(part.radius for part in parts), max(part.n_first for part in parts)
            return Sparsity(radius, n_first, next(iter(random), None))
        case both(rules):
            others = [other for other in rules if other is not causal and other is not everything]
            radii = [other.radius for other in others if isinstance(other, window)]
            inner = None
            if len(others) == 1:
                inner = sparsity(others[0])
            elif others and len(radii) == len(others):
                inner = Sparsity(radius=min(radii))
            return inner and replace(inner, causal=inner.causal or causal in rules)
        case _:
            return None


@dataclass(frozen=True)
class Tiled:
    """The same for kernels that work on packed sentences in place: tiles, and sentence bounds for each token.

    A query sees the keys `low .. high - 1`, up to itself if `causal`; a key is seen by queries among
    `first .. final - 1`.
    """

    causal: bool
    q_tiles: Tensor
    k_tiles: Tensor
    low: Tensor
    high: Tensor
    first: Tensor
    final: Tensor


@dataclass(frozen=True)
class Sees:
    """Which keys of one layout each query of another sees; built by `look`, once for a whole stack.

    `mask` is `[B or 1, 1, T or 1, S]`, or None if `triangle` (the causal mask that kernels have built in) hides all
    that is hidden. `tiled` is set if both layouts have tiles and the packed kernels support the rule. `band` is the
    radius of the rule if it is short compared with the sentences; the mask is then built one block at a time. `sparse`
    is the rule if the sentences are long enough for kernels that gather the visible keys; those without such a kernel
    use `dense`. `step` is set for one decoding step under such a rule: what it sees of the visible keys alone, which
    `picked` lists.
    """

    queries: Layout
    keys: Layout
    rule: Rule
    mask: Tensor | None
    triangle: bool
    tiled: Tiled | None = None
    band: int | None = None
    sparse: Sparsity | None = None
    step: Sees | None = None
    picked: Tensor | None = None

    def dense(self, device: torch.device) -> Tensor | None:
        """The mask written out, for code that needs it in full; None if nothing is hidden."""
        if self.triangle or self.band is not None or self.sparse is not None:
            return _mask(self.queries, self.keys, self.rule, device)
        return self.mask

    def key_positions(self, device: torch.device) -> Tensor:
        """The position of each key, `[S]`."""
        return self.keys.grid.positions(device) if self.picked is None else self.picked


def look(queries: Layout, keys: Layout, rule: Rule, device: torch.device) -> Sees:
    """Combine a rule with the ends of the sentences."""
    asking, asked = queries.grid, keys.grid
    square = asking.offset == asked.offset == 0 and asking.size == asked.size
    if rule is causal and queries is keys and square:
        # Padding is on the right, after every real query, so the triangle hides it too.
        return Sees(queries, keys, rule, mask=None, triangle=True, tiled=_tiled(queries, keys, rule))
    if rule is causal and asking.size == 1 and asking.longest == asked.longest and asked.lengths is None:
        return Sees(queries, keys, everything, mask=None, triangle=False)  # the newest position sees all others
    known, same = sparsity(rule), square and (queries is keys or asking.lengths is asked.lengths is None)
    far = reach(rule)
    if far is not None and same and asking.size > max(WORTH * far, SHORT):
        return Sees(queries, keys, rule, mask=None, triangle=False, band=far, sparse=known)
    if known is not None and same and asking.size > max(WORTH * known.cost, SHORT):
        return Sees(queries, keys, rule, mask=None, triangle=False, sparse=known)
    newest = asking.size == 1 and asking.longest == asked.longest and asked.lengths is None
    if known is not None and known.causal and newest and asked.size > max(known.cost, SHORT):
        step = _step(queries, keys, known, device)
        return Sees(queries, keys, rule, mask=None, triangle=False, sparse=known, step=step)
    return Sees(queries, keys, rule, _mask(queries, keys, rule, device), False, _tiled(queries, keys, rule))


def _step(queries: Layout, keys: Layout, known: Sparsity, device: torch.device) -> Sees:
    """What the newest position sees, all of it: the keys that it sees and no others."""
    from dragoman.nn.attention.random_pairs import random_before  # which needs the rules above

    position = queries.grid.offset
    near = max(0, position - known.radius) if known.radius >= 0 else position + 1
    if position < known.n_first:
        near = 0
    parts = [torch.arange(min(known.n_first, near)), torch.arange(near, position + 1)]
    if known.random is not None:
        drawn = random_before(known.random, position)
        parts.insert(1, drawn[(drawn >= known.n_first) & (drawn < near)])
    return Sees(queries, keys, everything, mask=None, triangle=False, picked=torch.cat(parts).to(device))


def _mask(queries: Layout, keys: Layout, rule: Rule, device: torch.device) -> Tensor | None:
    asking, asked = queries.grid, keys.grid
    real = asked.real(device)
    shown = None if real is None else real[:, None, None, :]
    if rule is everything:
        return shown
    allowed = rule(asking.positions(device)[:, None], asked.positions(device)[None, :])[None, None]
    return allowed if shown is None else allowed & shown


def _tiled(queries: Layout, keys: Layout, rule: Rule) -> Tiled | None:
    if not (isinstance(queries, Packed) and isinstance(keys, Packed)) or queries.tiles is None or keys.tiles is None:
        return None
    if not (rule is everything or (rule is causal and queries is keys)):
        return None
    low, high = queries.bounds(keys)
    first, final = (low, high) if queries is keys else keys.bounds(queries)
    return Tiled(rule is causal, queries.tiles, keys.tiles, low, high, first, final)
