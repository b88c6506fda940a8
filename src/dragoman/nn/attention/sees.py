"""What may be seen (section 3.2.3), in one polarity: True shows.

A rule looks at two positions, the query's and the key's, each counted inside its own sentence, and says whether the
one may look at the other. Rules combine; `look` joins a rule with where sentences end, and that is the only place in
which a mask is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

import torch
from torch import Tensor

from dragoman.nn.layout import Layout, Packed

Rule = Callable[[Tensor, Tensor], Tensor]


def everything(query: Tensor, key: Tensor) -> Tensor:
    """Every position, as in the encoder and from the decoder into the source."""
    return torch.ones_like(query, dtype=torch.bool) & torch.ones_like(key, dtype=torch.bool)


def causal(query: Tensor, key: Tensor) -> Tensor:
    """The query's own position and what stands before it, as in the decoder."""
    return key <= query


def window(radius: int) -> Rule:
    """At most `radius` positions away, to either side."""

    def near(query: Tensor, key: Tensor) -> Tensor:
        return (query - key).abs() <= radius

    return near


def both(*rules: Rule) -> Rule:
    """What all of the rules show."""
    return lambda query, key: reduce(torch.logical_and, (rule(query, key) for rule in rules))


def either(*rules: Rule) -> Rule:
    """What any of the rules shows."""
    return lambda query, key: reduce(torch.logical_or, (rule(query, key) for rule in rules))


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
    rule is one that the packed kernels know.
    """

    queries: Layout
    keys: Layout
    rule: Rule
    mask: Tensor | None
    triangle: bool
    tiled: Tiled | None = None

    def dense(self, device: torch.device) -> Tensor | None:
        """The mask with the triangle written out, for code that wants to see it; None where nothing is hidden."""
        return _mask(self.queries, self.keys, self.rule, device) if self.triangle else self.mask


def look(queries: Layout, keys: Layout, rule: Rule, device: torch.device) -> Sees:
    """Join a rule with the ends of the sentences."""
    asking, asked = queries.grid, keys.grid
    square = asking.offset == asked.offset == 0 and asking.size == asked.size
    if rule is causal and queries is keys and square:
        # Padding stands on the right, after every real query, so that the triangle hides it as well.
        return Sees(queries, keys, rule, mask=None, triangle=True, tiled=_tiled(queries, keys, rule))
    if rule is causal and asking.size == 1 and asking.longest == asked.longest and asked.lengths is None:
        return Sees(queries, keys, everything, mask=None, triangle=False)  # the newest position sees all there is
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
