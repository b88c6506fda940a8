from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.batching import (
    TILE_TOKENS,
    PackedShape,
    draw_pairs,
    fill_tiles,
    packed_shape,
    plan_packed,
    plan_padded,
    random_order,
    split_padded,
)
from dragoman.data.shards import SplitPart
from dragoman.errors import DataError
from dragoman.nn.layout import TILE, joint_tiles
from raising import raises

LENGTHS = st.lists(st.tuples(st.integers(1, 17), st.integers(1, 23)), min_size=1, max_size=70)


def sides(lengths):
    array = np.array(lengths, np.int64)
    return np.arange(len(array)) + 100, array[:, 0], array[:, 1]


@given(n=st.integers(0, 40), seed=st.integers(0, 9), epoch=st.integers(0, 9))
def test_a_random_order_is_a_permutation_that_depends_on_its_counters(n, seed, epoch):
    order = random_order(n, seed, epoch, 1)
    assert sorted(order.tolist()) == list(range(n))
    assert order.tolist() == random_order(n, seed, epoch, 1).tolist()
    if n > 20:
        others = [
            random_order(n, seed + 1, epoch, 1),
            random_order(n, seed, epoch + 1, 1),
            random_order(n, seed, epoch, 2),
        ]
        assert all(order.tolist() != other.tolist() for other in others)


def philox(key, counter, n):
    """Philox 4x64-10 from its definition (Salmon et al., 2011), in Python's own integers."""
    word, numbers = (1 << 64) - 1, []
    while len(numbers) < n:
        counter += 1
        c = [counter >> 64 * i & word for i in range(4)]
        k = list(key)
        for _ in range(10):
            left, right = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
            c = [(right >> 64) ^ c[1] ^ k[0], right & word, (left >> 64) ^ c[3] ^ k[1], left & word]
            k = [(k[0] + 0x9E3779B97F4A7C15) & word, (k[1] + 0xBB67AE8584CAA73B) & word]
        numbers += c
    return numbers[:n]


def test_the_order_is_the_same_on_every_machine_and_version():
    bits = philox((3, 5), 1 << 192, 23)
    assert random_order(23, 3, 5, 1).tolist() == sorted(range(23), key=bits.__getitem__)


@settings(max_examples=100, deadline=None)
@given(lengths=LENGTHS, budget=st.integers(23, 90), most=st.sampled_from([0, 1, 4]), epoch=st.integers(0, 3))
def test_padded_batches_hold_each_pair_once_and_keep_the_budget(lengths, budget, most, epoch):
    pairs, source, target = sides(lengths)
    plan = plan_padded(pairs, source, target, budget, most, 7, epoch)
    assert sorted(plan.pairs.tolist()) == pairs.tolist()
    assert plan.bounds[0] == 0 and plan.bounds[-1] == len(pairs) and (np.diff(plan.bounds) > 0).all()
    area = [0, 0]
    for k in range(len(plan)):
        rows = plan[k] - 100
        widths = source[rows].max(), target[rows].max()
        assert len(rows) * max(widths) <= budget and (not most or len(rows) <= most)
        area = [area[i] + len(rows) * int(widths[i]) for i in range(2)]
    assert plan.fill_rates == pytest.approx((source.sum() / area[0], target.sum() / area[1]))


@settings(max_examples=100, deadline=None)
@given(lengths=LENGTHS, sizes=st.tuples(st.integers(17, 70), st.integers(23, 70)), most=st.integers(1, 9))
def test_packed_batches_hold_each_pair_once_and_end_only_when_full(lengths, sizes, most):
    pairs, source, target = sides(lengths)
    plan = plan_packed(pairs, source, target, PackedShape(*sizes, most, 23), 7, 2)
    assert sorted(plan.pairs.tolist()) == pairs.tolist()
    for k in range(len(plan)):
        rows = plan[k] - 100
        assert 0 < len(rows) <= most and source[rows].sum() <= sizes[0] and target[rows].sum() <= sizes[1]
        if k + 1 < len(plan):
            more = [*rows, plan[k + 1][0] - 100]
            assert len(more) > most or source[more].sum() > sizes[0] or target[more].sum() > sizes[1]
    assert plan.fill_rates == pytest.approx((source.sum() / sizes[0] / len(plan), target.sum() / sizes[1] / len(plan)))


@settings(max_examples=100, deadline=None)
@given(lengths=LENGTHS | st.just([]), room=st.integers(1, 40))
def test_neighbors_fill_steps_as_the_rule_says(lengths, room):
    source, target = [a for a, _ in lengths], [b for _, b in lengths]
    sizes = [max(pair) for pair in lengths]
    expected = [i for i in range(len(lengths)) if sizes[i] > room]
    waiting = [i for i in range(len(lengths)) if sizes[i] <= room]
    left = [room, room]
    while waiting:
        fitting = [i for i in waiting if sizes[i] <= min(left)]
        if not fitting:
            left = [room, room]
            continue
        best = max(fitting, key=lambda i: (sizes[i], -i))
        left = [left[0] - source[best], left[1] - target[best]]
        waiting.remove(best)
        expected.append(best)
    assert fill_tiles(np.array(source, np.int64), np.array(target, np.int64), room).tolist() == expected


def test_sentences_of_common_lengths_nearly_fill_their_steps():
    assert TILE_TOKENS == TILE  # which kernels take at a time
    rng = np.random.default_rng(1)
    source = np.exp(rng.normal(3.2, 0.55, 1200)).clip(3, 120).astype(np.int64)
    target = (source * rng.normal(1, 0.15, 1200)).clip(3, 120).astype(np.int64)

    def tiles(order):
        starts, _ = joint_tiles(*(torch.from_numpy(n[order]) for n in (source, target)), source.sum(), target.sum())
        return int((starts.diff() > 0).sum())

    least = np.maximum(source, target).sum() / TILE_TOKENS
    assert tiles(fill_tiles(source, target)) < 1.12 * least < 1.25 * least < tiles(np.arange(1200))


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 13), min_size=1, max_size=3),
    weights=st.lists(st.sampled_from([1, 2, 0.5, 0.3, 1.7, 2.25, 1 / 3]), min_size=3, max_size=3),
    seed=st.integers(0, 5),
)
def test_mixing_is_exact_in_every_epoch_and_over_epochs(sizes, weights, seed):
    stops = np.cumsum([0, *sizes]).tolist()
    parts = [SplitPart(str(i), stops[i], stops[i + 1]) for i in range(len(sizes))]
    weights = weights[: len(sizes)]
    counts = Counter()
    for epoch in range(7):
        drawn = draw_pairs(parts, weights, seed, epoch).tolist()
        counts.update(drawn)
        for part, weight in zip(parts, weights, strict=True):
            n, w = part.stop - part.start, Fraction(str(weight))
            here = [i for i in drawn if part.start <= i < part.stop]
            assert len(here) == int((epoch + 1) * w * n) - int(epoch * w * n)
            so_far = [counts[i] for i in range(part.start, part.stop)]
            assert sum(so_far) == int((epoch + 1) * w * n)  # exact to the pair, however many epochs
            assert max(so_far) - min(so_far) <= 1  # and no pair is ahead of another
    assert set(counts) <= set(range(stops[-1]))


def test_a_fraction_rotates_and_does_not_repeat_the_same_pairs():
    part = [SplitPart("x", 0, 100)]
    halves = [set(draw_pairs(part, [0.5], 1, epoch).tolist()) for epoch in range(2)]
    assert len(halves[0]) == len(halves[1]) == 50 and not halves[0] & halves[1]


def test_pairs_of_like_length_on_both_sides_share_a_padded_batch():
    rng = np.random.default_rng(5)
    source = np.minimum(rng.geometric(1 / 25, 20_000) + 2, 200)
    target = np.clip((source * rng.normal(1.1, 0.15, len(source))).astype(int), 1, 256)
    plan = plan_padded(np.arange(len(source)), source, target, 4096, 0, 1, 0)
    one_side = np.lexsort((target, source))  # what sorting by the source alone would give, cut by the same budget
    bounds = split_padded(np.maximum(source, target)[one_side], 4096, 0)
    area = np.diff(bounds) @ np.maximum.reduceat(target[one_side], bounds[:-1])
    assert min(plan.fill_rates) > 0.9 > 0.87 > target.sum() / area


def test_packed_sizes_leave_little_filler_on_either_side():
    rng = np.random.default_rng(5)
    source = np.minimum(rng.geometric(1 / 25, 50_000) + 2, 200)
    target = np.clip((source * rng.normal(1.3, 0.15, len(source))).astype(int), 1, 256)
    shape = packed_shape(source, target, 8192, 0, 257)
    plan = plan_packed(np.arange(len(source)), source, target, shape, 1, 0)
    assert shape.target == 8192 and shape.source < 0.85 * 8192
    assert min(plan.fill_rates) > 0.95


def test_the_longest_sentence_fits_into_the_smaller_side_too():
    shape = packed_shape(np.array([9, 3]), np.array([90, 50]), 100, 0, 91)
    assert (shape.source, shape.target) == (100, 100)


def test_a_sentence_that_fits_nowhere_is_refused():
    with raises(DataError, "text_too_long", "31", "30", "data.batch_tokens"):
        plan_padded(np.arange(2), np.array([3, 4]), np.array([31, 2]), 30, 0, 1, 0)
    with raises(DataError, "text_too_long", "31"):
        plan_packed(np.arange(2), np.array([31, 4]), np.array([3, 2]), PackedShape(30, 40, 5, 40), 1, 0)
