"""Which pairs make up which batch of an epoch: a function of (seed, epoch) and the lengths, and of nothing else.

Lengths here count the end mark. A budget of tokens holds for the source and for the target. *Padded* batches are cut
from pairs of similar length on both sides, and the budget bounds rows times columns. *Packed* batches take pairs in
random order and are filled end to end until the next pair would not fit, so that only the tail of each is filler;
inside a batch, neighbors then fill the steps in which kernels work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dragoman.arrays import Int64Array
from dragoman.data.shards import Part
from dragoman.errors import DataError

DRAW, SHUFFLE, ORDER = 0, 1, 2  # what randomness is used for: each has a stream of its own
STEP = 64  # what kernels work on at once: packed sizes are multiples of it, and sentences are laid so as to fill it


@dataclass(frozen=True)
class Shape:
    """The fixed sizes of packed batches: tokens on each side, sentences, and the length that none exceeds."""

    source: int
    target: int
    sentences: int
    longest: int


@dataclass(frozen=True)
class Plan:
    """Batch k of an epoch holds the pairs `pairs[bounds[k] : bounds[k + 1]]`.

    `used` is the share of the tensors' places that hold real tokens, over the epoch, for source and target.
    """

    pairs: Int64Array
    bounds: Int64Array
    used: tuple[float, float]

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __getitem__(self, batch: int) -> Int64Array:
        return self.pairs[self.bounds[batch] : self.bounds[batch + 1]]


def random_order(n: int, seed: int, epoch: int, purpose: int) -> Int64Array:
    """A permutation of 0 .. n - 1, from raw Philox bits, which every version of NumPy gives alike."""
    stream = np.random.Philox(key=[seed, epoch], counter=[0, 0, 0, purpose])
    return np.argsort(stream.random_raw(n), kind="stable")


def draw(parts: Sequence[Part], weights: Sequence[float], seed: int, epoch: int) -> Int64Array:
    """The pairs of an epoch, as often as the weights say, corpus by corpus.

    Epoch e of a corpus of n pairs and weight w takes the places floor(e w n) .. floor((e + 1) w n) - 1 of one fixed
    permutation that is repeated without end: the counts are exact, and a fraction rotates through the corpus.
    """
    drawn = []
    for number, (part, weight) in enumerate(zip(parts, weights, strict=True)):
        n = part.stop - part.start
        share = Fraction(str(weight)) * n
        places = np.arange(int(epoch * share), int((epoch + 1) * share)) % max(n, 1)
        if share.denominator != 1 or share % max(n, 1):
            places = random_order(n, seed, number, DRAW)[places]
        drawn.append(part.start + places)
    return np.concatenate([np.zeros(0, np.int64), *drawn])


def plan_padded(
    pairs: Int64Array, source: Int64Array, target: Int64Array, budget: int, most: int, seed: int, epoch: int
) -> Plan:
    """Batches of similar lengths, in random order; `source` and `target` are the lengths of `pairs`, one each."""
    check_lengths(source, target, budget, budget)
    order = random_order(len(pairs), seed, epoch, SHUFFLE)
    order = order[by_length(source[order], target[order], budget)]
    pairs, source, target = pairs[order], source[order], target[order]
    bounds = cut_padded(np.maximum(source, target), budget, most)
    n = len(bounds) - 1
    area = [0, 0]
    if n:
        rows = np.diff(bounds)
        area = [int(rows @ np.maximum.reduceat(side, bounds[:-1])) for side in (source, target)]
    shuffled = random_order(n, seed, epoch, ORDER)
    starts, counts = bounds[:-1][shuffled], np.diff(bounds)[shuffled]
    spread = np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(len(pairs))
    return Plan(pairs[spread], np.concatenate([[0], np.cumsum(counts)]), used(source, target, area))


def by_length(source: Int64Array, target: Int64Array, budget: int) -> Int64Array:
    """An order in which neighbors are alike on both sides: strips of like source, each sorted by target.

    Batches are then tiles in the plane of both lengths, and there are as many strips as makes them about square (the
    factor 3 pads least, as measured). Targets go up and down in turn, so that no seam brings both extremes together.
    """
    order = sort_small(source)
    cost = np.maximum(source, target)[order]
    total = max(int(cost.sum()), 1)
    n_strips = int((3 * total / budget) ** 0.5) + 1
    strip = np.empty(len(source), np.int64)
    strip[order] = (np.cumsum(cost) - cost) * n_strips // total
    order = sort_small(np.where(strip % 2, target.max(initial=0) - target, target))
    return order[sort_small(strip[order])]


def sort_small(numbers: Int64Array) -> Int64Array:
    """A stable order of numbers from 0; sixteen bits are sorted digit by digit, which takes a fraction of the time."""
    return np.argsort(numbers.astype(np.min_scalar_type(int(numbers.max(initial=0)))), kind="stable")


def cut_padded(width: Int64Array, budget: int, most: int) -> Int64Array:
    """Where batches begin, so that rows times the widest row stays within the budget."""
    bounds, start, n = [0], 0, len(width)
    while start < n:
        room = min(budget // int(width[start]), most or n, n - start)
        widest = np.maximum.accumulate(width[start : start + room])
        start += int(np.count_nonzero(widest * np.arange(1, len(widest) + 1) <= budget))
        bounds.append(start)
    return np.array(bounds, np.int64)


def plan_packed(pairs: Int64Array, source: Int64Array, target: Int64Array, shape: Shape, seed: int, epoch: int) -> Plan:
    """Batches filled end to end in random order."""
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
    return Plan(pairs, np.array(bounds, np.int64), used(source, target, area))


def fill_steps(source: Int64Array, target: Int64Array, room: int = STEP) -> Int64Array:
    """An order of the pairs of a packed batch in which neighbors fill `room` tokens, of both sides.

    The longest pair is followed by the longest that fits beside it, and so on; what is longer than the room goes first.
    Kernels then have a fifth fewer places to work on than in random order, where lengths are about 28.
    """
    longer = np.maximum(source, target)
    lengths, sizes = (source.tolist(), target.tolist()), longer.tolist()
    order = np.flatnonzero(longer > room).tolist()
    of_size: list[list[int]] = [[] for _ in range(room + 1)]
    there = 0  # bit k: some pair of size k is left
    for pair in range(len(sizes) - 1, -1, -1):
        if sizes[pair] <= room:
            of_size[sizes[pair]].append(pair)
            there |= 1 << sizes[pair]
    while there:
        left = room, room
        while fitting := there & ((2 << min(left)) - 1):
            size = fitting.bit_length() - 1
            pair = of_size[size].pop()
            if not of_size[size]:
                there ^= 1 << size
            left = left[0] - lengths[0][pair], left[1] - lengths[1][pair]
            order.append(pair)
    return np.array(order, np.int64)


def packed_shape(source: Int64Array, target: Int64Array, budget: int, sentences: int, longest: int) -> Shape:
    """Sizes in which both sides come out full: the budget for the side with more tokens, in proportion for the other.

    Room for a quarter more sentences than the mean makes the number of sentences end a batch almost never.
    """
    totals = max(int(source.sum()), 1), max(int(target.sum()), 1)
    sizes = [max(up(budget * total / max(totals), STEP), up(longest, STEP)) for total in totals]
    sizes = [budget if total == max(totals) else min(size, budget) for size, total in zip(sizes, totals, strict=True)]
    mean = max(totals) / max(len(source), 1)
    return Shape(sizes[0], sizes[1], sentences or up(1.25 * budget / mean + 8, 8), longest)


def up(number: float, step: int) -> int:
    """The next multiple of `step`."""
    return int(-(-number // step) * step)


def used(source: Int64Array, target: Int64Array, area: Sequence[int]) -> tuple[float, float]:
    """The share of `area` that the tokens fill, for each side."""
    return int(source.sum()) / max(area[0], 1), int(target.sum()) / max(area[1], 1)


def check_lengths(source: Int64Array, target: Int64Array, source_room: int, target_room: int) -> None:
    """A sentence that fits into no batch would be lost: refuse, and say which number to change."""
    for side, lengths, room in (("source", source, source_room), ("target", target, target_room)):
        longest = int(lengths.max(initial=0))
        if longest > room:
            raise DataError(
                f"a {side} sentence has {longest} tokens with its end mark, but a batch has room for {room}; raise "
                f"data.batch_tokens to at least {longest}, or prepare with a smaller data.max_tokens",
                code="sentence_too_long",
            )
