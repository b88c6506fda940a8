# ruff: noqa: N801  # rules that hold numbers read like those that are functions: both(causal, window(64))
"""What may be seen (section 3.2.3), in one polarity: True shows.

A rule looks at two positions, the query's and the key's, each counted inside its own sentence, and says whether the
one may look at the other. Rules combine; `look` joins a rule with where sentences end, and that is the only place in
which a mask is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Final

import torch
from torch import Tensor

from dragoman.nn.layout import Layout, Packed

Rule = Callable[[Tensor, Tensor], Tensor]

# A band is computed as one where sentences may be so many times as long as it reaches, and longer than so many tokens:
# shorter ones are quicker under a mask, by two to seven times at 20 to 80 tokens on a CPU.
WORTH: Final = 8
SHORT: Final = 200


def everything(query: Tensor, key: Tensor) -> Tensor:
    """Every position, as in the encoder and from the decoder into the source."""
    return torch.ones_like(query, dtype=torch.bool) & torch.ones_like(key, dtype=torch.bool)


def causal(query: Tensor, key: Tensor) -> Tensor:
    """The query's own position and what stands before it, as in the decoder."""
    return key <= query


@dataclass(frozen=True)
class window:
    """At most `radius` positions away, to either side: the restricted attention of section 4."""

    radius: int

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the two are near."""
        return (query - key).abs() <= self.radius


@dataclass(frozen=True)
class first:
    """The first `count` positions see all and are seen by all: the global tokens of Longformer and BigBird."""

    count: int

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether one of the two is among the first."""
        return (query < self.count) | (key < self.count)


@dataclass(frozen=True)
class scattered:
    """Random pairs, the same each time (Zaheer et al., 2020): on average `count` of what stands before a query.

    Whether a pair is shown is a hash of its two positions and has the probability count / (the later one + 1), so that
    the pattern does not depend on how long a sentence is, and a decoder that steps sees what one that reads sees.
    """

    count: int
    seed: int = 0

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the pair was drawn."""
        low, high = torch.minimum(query, key), torch.maximum(query, key)
        bits = (low * 0x2545F491 + high * 0x9E3779B1 + self.seed * 0x7FEB352D) & 0xFFFFFFFF
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B), (16, 1)):  # C. Wellons' "lowbias32"
            bits = ((bits ^ (bits >> shift)) * factor) & 0xFFFFFFFF
        return bits * (high + 1) < min(self.count, 1 << 30) << 32  # which is all there are, and no overflow


@dataclass(frozen=True, init=False)
class both:
    """What all of the rules show."""

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        object.__setattr__(self, "rules", rules)

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether all show the key to the query."""
        return reduce(torch.logical_and, (rule(query, key) for rule in self.rules))


@dataclass(frozen=True, init=False)
class either:
    """What any of the rules shows."""

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        object.__setattr__(self, "rules", rules)

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether one shows the key to the query."""
        return reduce(torch.logical_or, (rule(query, key) for rule in self.rules))


def reach(rule: Rule) -> int | None:
    """How far a rule looks at most, where it says so."""
    match rule:
        case window(radius):
            return radius
        case both(rules):
            known = [far for far in [reach(rule) for rule in rules] if far is not None]
            return min(known) if known else None
        case _:
            return None


@dataclass(frozen=True)
class Tiled:
    """The same for kernels that work on packed sentences as they lie: tiles, and bounds of sentences for each token.

    A query sees the keys `low .. high - 1`, if `causal` only up to itself; a key is seen by queries among
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
    """What each query of one layout may look at among the keys of another; made by `look`, once for a whole stack.

    `mask` is `[B or 1, 1, T or 1, S]`, or None where nothing is hidden that `triangle` does not hide:
    kernels know that one pattern without being handed a mask. `tiled` is there where both layouts have tiles and the
    rule is one that the packed kernels know. `band` is how far the rule looks where that is short beside the sentences:
    what is needed of the mask is then made a block at a time.
    """

    queries: Layout
    keys: Layout
    rule: Rule
    mask: Tensor | None
    triangle: bool
    tiled: Tiled | None = None
    band: int | None = None

    def dense(self, device: torch.device) -> Tensor | None:
        """The mask with triangle or band written out, for code that wants to see it; None where nothing is hidden."""
        if self.triangle or self.band is not None:
            return _mask(self.queries, self.keys, self.rule, device)
        return self.mask


def look(queries: Layout, keys: Layout, rule: Rule, device: torch.device) -> Sees:
    """Join a rule with the ends of the sentences."""
    asking, asked = queries.grid, keys.grid
    square = asking.offset == asked.offset == 0 and asking.size == asked.size
    if rule is causal and queries is keys and square:
        # Padding stands on the right, after every real query, so that the triangle hides it as well.
        return Sees(queries, keys, rule, mask=None, triangle=True, tiled=_tiled(queries, keys, rule))
    if rule is causal and asking.size == 1 and asking.longest == asked.longest and asked.lengths is None:
        return Sees(queries, keys, everything, mask=None, triangle=False)  # the newest position sees all there is
    far = reach(rule)
    if far is not None and queries is keys and square and asking.size > max(WORTH * far, SHORT):
        return Sees(queries, keys, rule, mask=None, triangle=False, band=far)
    return Sees(queries, keys, rule, _mask(queries, keys, rule, device), False, _tiled(queries, keys, rule))


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
