"""List the random pairs of `scattered` in time proportional to their number.

The rule hashes two positions to 32 bits and compares the hash with a threshold, so asking it about every pair takes
quadratic time. The hash can be inverted: each value below the threshold has one preimage, and the pairs of positions
with that preimage are points of a lattice, of which few or none are in range.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Final

import torch
from torch import Tensor

from dragoman.nn.attention.sees import HASH_ROUNDS, HIGH_FACTOR, LOW_FACTOR, SEED_FACTOR, scattered

MODULUS: Final = 1 << 32
ROWS: Final = 16  # positions that are compared with all earlier ones at once: few, so that they stay in the cache
SMALLEST: Final = 128  # capacity
CANDIDATES: Final = 1 << 15  # hashes that are inverted at once; likewise


@lru_cache(maxsize=64)
def random_pairs(rule: scattered, capacity: int) -> tuple[Tensor, Tensor]:
    """All pairs `low <= high < capacity` (a power of two) that the rule shows: lows and highs, ordered by high, low."""
    if capacity <= SMALLEST:
        return _compared(rule, 0, capacity)
    half = capacity // 2
    n_compared = 3 * half * half // 2
    n_inverted = rule.count * MODULUS // half * _combinations(half)
    older, newer = random_pairs(rule, half), (_inverted if n_inverted < n_compared else _compared)(rule, half, capacity)
    return torch.cat([older[0], newer[0]]), torch.cat([older[1], newer[1]])


@lru_cache(maxsize=64)
def _row_ends(rule: scattered, capacity: int) -> Tensor:
    """The number of pairs up to and including each later position."""
    return torch.bincount(random_pairs(rule, capacity)[1], minlength=capacity).cumsum(0)


def random_before(rule: scattered, position: int) -> Tensor:
    """The positions up to `position` that it sees under the rule, ascending."""
    capacity = capacity_for(position + 1)
    ends = _row_ends(rule, capacity)
    start = int(ends[position - 1]) if position else 0
    return random_pairs(rule, capacity)[0][start : int(ends[position])]


def capacity_for(length: int) -> int:
    """The power of two for which pairs are listed, so that few lists serve all lengths."""
    return max(SMALLEST, 1 << (length - 1).bit_length())


def _compared(rule: scattered, start: int, end: int) -> tuple[Tensor, Tensor]:
    """The pairs with a later position from `start` to `end - 1`, by asking the rule about each."""
    lows, highs = [], []
    for top in range(start, end, ROWS):
        high, low = torch.arange(top, min(end, top + ROWS))[:, None], torch.arange(min(end, top + ROWS))
        row, column = ((low <= high) & rule(high, low)).nonzero(as_tuple=True)
        lows.append(column)
        highs.append(row + top)
    return torch.cat(lows), torch.cat(highs)


def _inverted(rule: scattered, start: int, end: int) -> tuple[Tensor, Tensor]:
    """The same from the hashes: the pairs whose hash is small enough are computed from it."""
    (u, v), inverse = _lattice(), pow(LOW_FACTOR, -1, MODULUS)
    determinant = u[0] * v[1] - u[1] * v[0]
    ranges = [range(-reach, reach + 1) for reach in _reaches(start)]
    limit = -(-(rule.count << 32) // (start + 1))  # above the largest hash that the earliest position accepts
    found: list[Tensor] = []
    for least in range(0, min(limit, MODULUS), CANDIDATES):
        bits = torch.arange(least, min(limit, MODULUS, least + CANDIDATES))
        # One pair with this hash, far out of range: (low, 0). All others differ from it by a lattice vector.
        low = ((_unhash(bits) - rule.seed * SEED_FACTOR) & (MODULUS - 1)) * inverse & (MODULUS - 1)
        x, y = start - low.double(), 1.5 * start  # to the center of the range, low < end and start <= high < end
        i0 = ((x * v[1] - y * v[0]) / determinant).round().long()
        j0 = ((y * u[0] - x * u[1]) / determinant).round().long()
        for i, j in product(*ranges):
            a, b = low + (i0 + i) * u[0] + (j0 + j) * v[0], (i0 + i) * u[1] + (j0 + j) * v[1]
            shown = (a >= 0) & (a <= b) & (b >= start) & (b < end) & (bits * (b + 1) < rule.count << 32)
            found.append((b * end + a)[shown])
    code = torch.cat(found).sort().values
    return code % end, code // end


def _unhash(bits: Tensor) -> Tensor:
    """The 32 bits of which `bits` are the hash in `scattered`."""
    for shift, factor in reversed(HASH_ROUNDS):
        bits = bits * pow(factor, -1, MODULUS) & (MODULUS - 1)
        bits = bits ^ (bits >> shift) ^ (bits >> 2 * shift)  # shifts are 11 or more, so a third one is always zero
    return bits


@lru_cache(maxsize=1)
def _lattice() -> tuple[tuple[int, int], tuple[int, int]]:
    """A reduced basis of the pairs of integers that the hash sends to where it sends (0, 0)."""
    u, v = (MODULUS, 0), (-HIGH_FACTOR * pow(LOW_FACTOR, -1, MODULUS) % MODULUS, 1)
    while True:  # Gauss: subtract the shorter vector from the longer one until nothing is gained
        if u[0] ** 2 + u[1] ** 2 > v[0] ** 2 + v[1] ** 2:
            u, v = v, u
        times = round((u[0] * v[0] + u[1] * v[1]) / (u[0] ** 2 + u[1] ** 2))
        if not times:
            return u, v
        v = (v[0] - times * u[0], v[1] - times * u[1])


def _reaches(start: int) -> tuple[int, int]:
    """How far from the rounded center's coordinates those of a pair in `[0, 2 start) x [start, 2 start)` can be."""
    u, v = _lattice()
    determinant = abs(u[0] * v[1] - u[1] * v[0])
    far = (abs(v[1]) + abs(v[0]) / 2) * start / determinant, (abs(u[1]) + abs(u[0]) / 2) * start / determinant
    return int(far[0] + 0.51), int(far[1] + 0.51)


def _combinations(start: int) -> int:
    first, second = _reaches(start)
    return (2 * first + 1) * (2 * second + 1)
