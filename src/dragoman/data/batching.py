"""The batches of an epoch: the pairs in each, as a function of (seed, epoch) and the lengths alone.

Lengths here count EOS. The token budget applies to source and target separately. *Padded* batches hold pairs of similar
length on both sides, and the budget bounds rows times columns. *Packed* batches take pairs in random order and are
filled end to end until the next pair does not fit, so only the tail of each is padding; inside a batch, pairs are
ordered to fill the tiles that kernels work on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dragoman.arrays import Int64Array
from dragoman.data.shards import SplitPart
from dragoman.errors import DataError

DRAW, SHUFFLE, ORDER = 0, 1, 2  # a random stream for each purpose
TILE_TOKENS = 64  # per kernel tile: packed sizes are multiples of it, and sentences are ordered to fill it


@dataclass(frozen=True)
class PackedShape:
    """The fixed sizes of packed batches: tokens of each side, sentences, and the longest sentence."""

    source: int
    target: int
    sentences: int
    longest: int


@dataclass(frozen=True)
class EpochPlan:
    """Batch k of an epoch holds the pairs `pairs[bounds[k] : bounds[k + 1]]`.

    `fill_rates` are the shares of the source and target tensors that hold real tokens, over the epoch.
    """

    pairs: Int64Array
    bounds: Int64Array
    fill_rates: tuple[float, float]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, batch: int) -> Int64Array:
        return self.pairs[self.bounds[batch] : self.bounds[batch + 1]]


def random_order(n: int, seed: int, epoch: int, purpose: int) -> Int64Array:
    """A permutation of 0 .. n - 1, from raw Philox bits, which are the same in every version of NumPy."""
    stream = np.random.Philox(key=[seed, epoch], counter=[0, 0, 0, purpose])
    return np.argsort(stream.random_raw(n), kind="stable")


def draw_pairs(parts: Sequence[SplitPart], weights: Sequence[float], seed: int, epoch: int) -> Int64Array:
    """The pairs of an epoch, corpus by corpus, each repeated according to its corpus's weight.

    Epoch e of a corpus of n pairs and weight w takes the indices floor(e w n) .. floor((e + 1) w n) - 1 of a fixed,
    endlessly repeated permutation: the counts are exact, and a fractional weight rotates through the corpus.
    """
    drawn = []
    for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        n = part.stop - part.start
        share = Fraction(str(weight)) * n
        indices = np.arange(int(epoch * share), int((epoch + 1) * share)) % max(n, 1)
        if share.denominator != 1 or share % max(n, 1):
            indices = random_order(n, seed, number, DRAW)[indices]
        drawn.append(part.start + indices)
    return np.concatenate([np.zeros(0, np.int64), *drawn])


def plan_padded(
    pairs: Int64Array, source: Int64Array, target: Int64Array, budget: int, max_sentences: int, seed: int, epoch: int
) -> EpochPlan:
    """Plan batches of similar lengths, in random order; `source` and `target` are the lengths of `pairs`."""
    check_lengths(source, target, budget, budget)
    order = random_order(len(pairs), seed, epoch, SHUFFLE)
    order = order[order_by_length(source[order], target[order], budget)]
    pairs, source, target = pairs[order], source[order], target[order]
    bounds = split_padded(np.maximum(source, target), budget, max_sentences)
    n = len(bounds) - 1
    area = [0, 0]
    if n:
        rows = np.diff(bounds)
        area = [int(rows @ np.maximum.reduceat(side, bounds[:-1])) for side in (source, target)]
    shuffled = random_order(n, seed, epoch, ORDER)
    starts, counts = bounds[:-1][shuffled], np.diff(bounds)[shuffled]
    spread = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(len(pairs))
    return EpochPlan(pairs[spread], np.concatenate([[0], np.cumsum(counts)]), fill_rates(source, target, area))


def order_by_length(source: Int64Array, target: Int64Array, budget: int) -> Int64Array:
    """An order in which neighbors are similar on both sides: strips of similar source, each sorted by target.

    Batches are then rectangles in the plane of both lengths, and the number of strips makes them about square (a
    factor of 3 gave the least padding). Targets are sorted up and down in turn, so no seam joins both extremes.
    """
    order = argsort_small(source)
    cost = np.maximum(source, target)[order]
    total = max(int(cost.sum()), 1)
    n_strips = int((3 * total / budget) ** 0.5) + 1
    strip = np.empty(len(source), np.int64)
    strip[order] = (np.cumsum(cost) - cost) * n_strips // total
    order = argsort_small(np.where(strip % 2, target.max(initial=0) - target, target))
    return order[argsort_small(strip[order])]


def argsort_small(numbers: Int64Array) -> Int64Array:
    """A stable argsort of non-negative numbers; 16-bit keys let NumPy use its much faster radix sort."""
    return np.argsort(numbers.astype(np.min_scalar_type(int(numbers.max(initial=0)))), kind="stable")


def split_padded(width: Int64Array, budget: int, max_sentences: int) -> Int64Array:
    """The start of each batch, such that rows times the widest row stays within the budget."""
    bounds, start, n = [0], 0, len(width)
    while start < n:
        room = min(budget // int(width[start]), max_sentences or n, n - start)
        widest = np.maximum.accumulate(width[start : start + room])
        start += int(np.count_nonzero(widest * np.arange(1, len(widest) + 1) <= budget))
        bounds.append(start)
    return np.array(bounds, np.int64)


def plan_packed(
    pairs: Int64Array, source: Int64Array, target: Int64Array, shape: PackedShape, seed: int, epoch: int
) -> EpochPlan:
    """Plan batches that are filled end to end in random order."""
    check_lengths(source, target, min(shape.source, shape.longest), min(shape.target, shape.longest))
    order = random_order(len(pairs), seed, epoch, SHUFFLE)
    pairs, source, target = pairs[order], source[order], target[order]
    ends = np.cumsum(source), np.cumsum(target)
    bounds, start, n = [0], 0, len(pairs)
    while start < n:
        stops = [
            int(np.searchsorted(end, (end[start - 1] if start else 0) + size, side="right"))
            for end, size in zip(ends, (shape.source, shape.target), strict=True)
        ]
        start = min(*stops, start + shape.sentences)
        bounds.append(start)
    area = [(len(bounds) - 1) * shape.source, (len(bounds) - 1) * shape.target]
    return EpochPlan(pairs, np.array(bounds, np.int64), fill_rates(source, target, area))


def fill_tiles(source: Int64Array, target: Int64Array, room: int = TILE_TOKENS) -> Int64Array:
    """An order of the pairs of a packed batch in which neighbors fill tiles of `room` tokens, on both sides.

    The longest pair is followed by the longest that still fits, and so on; pairs longer than `room` come first.
    Kernels then work on a fifth fewer tokens than in random order, for sentences of about 28 tokens.
    """
    longer = np.maximum(source, target)
    lengths, sizes = (source.tolist(), target.tolist()), longer.tolist()
    order = np.flatnonzero(longer > room).tolist()
    of_size: list[list[int]] = [[] for _ in range(room + 1)]
    available = 0  # bit k: some pair of size k is left
    for pair in range(len(sizes) - 1, -1, -1):
        if sizes[pair] <= room:
            of_size[sizes[pair]].append(pair)
            available |= 1 << sizes[pair]
    while available:
        left = room, room
        while fitting := available & ((2 << min(left)) - 1):
            size = fitting.bit_length() - 1
            pair = of_size[size].pop()
            if not of_size[size]:
                available ^= 1 << size
            left = left[0] - lengths[0][pair], left[1] - lengths[1][pair]
            order.append(pair)
    return np.array(order, np.int64)


def packed_shape(source: Int64Array, target: Int64Array, budget: int, sentences: int, longest: int) -> PackedShape:
    """Sizes that fill both sides: the budget for the side with more tokens, and proportionally less for the other.

    There is room for a quarter more sentences than the mean, so the number of sentences almost never limits a batch.
    """
    totals = max(int(source.sum()), 1), max(int(target.sum()), 1)
    sizes = [
        max(round_up(budget * total / max(totals), TILE_TOKENS), round_up(longest, TILE_TOKENS)) for total in totals
    ]
    sizes = [budget if total == max(totals) else min(size, budget) for size, total in zip(sizes, totals, strict=True)]
    mean = max(totals) / max(len(source), 1)
    return PackedShape(sizes[0], sizes[1], sentences or round_up(1.25 * budget / mean + 8, 8), longest)


def round_up(number: float, step: int) -> int:
    """The next multiple of `step`."""
    return int(-(-number // step) * step)


def fill_rates(source: Int64Array, target: Int64Array, area: Sequence[int]) -> tuple[float, float]:
    """The share of `area` that the tokens fill, for each side."""
    return int(source.sum()) / max(area[0], 1), int(target.sum()) / max(area[1], 1)


def check_lengths(source: Int64Array, target: Int64Array, source_room: int, target_room: int) -> None:
    """Reject sentences that do not fit into a batch."""
    for side, lengths, room in (("source", source, source_room), ("target", target, target_room)):
        longest = int(lengths.max(initial=0))
        if longest > room:
            raise DataError(
                f"a {side} sentence has {longest} tokens with EOS, but a batch has room for {room}; raise "
                f"data.batch_tokens to at least {longest}, or prepare with a smaller data.max_tokens",
                code="text_too_long",
            )
