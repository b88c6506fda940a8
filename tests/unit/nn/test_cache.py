"""The decoder cache against plain concatenation, continued from any state."""

from __future__ import annotations

import torch

from dragoman.nn import GrowingCache, KeyValues


def some(rows: int, positions: int, grad: bool = False) -> KeyValues:
    return KeyValues(
        torch.randn(rows, 3, positions, 5, requires_grad=grad), torch.randn(rows, 3, positions, 7, requires_grad=grad)
    )


def joined(*parts: KeyValues) -> KeyValues:
    return KeyValues(torch.cat([p.keys for p in parts], 2), torch.cat([p.values for p in parts], 2))


def same(one: KeyValues | None, other: KeyValues) -> bool:
    return one is not None and torch.equal(one.keys, other.keys) and torch.equal(one.values, other.values)


def test_steps_of_any_length_are_concatenation() -> None:
    cache, parts = GrowingCache(), []
    for positions in (1, 1, 4, 1, 40, 1, 1, 90, 1):  # some outgrow the room, some do not
        parts.append(some(2, positions))
        assert same(cache.extend(parts[-1]), joined(*parts))


def test_two_that_go_on_from_one_past_do_not_meet() -> None:
    first, second, third, fourth = some(2, 3), some(2, 1), some(2, 1), some(2, 2)
    cache = GrowingCache()
    cache.extend(first)
    left, right = cache.fork(), cache.fork()
    left.extend(second)
    right.extend(third)  # the room behind `first` is taken
    left.extend(fourth)
    right.extend(fourth)
    assert same(cache.past, first)
    assert same(left.past, joined(first, second, fourth))
    assert same(right.past, joined(first, third, fourth))
    cache.extend(third)
    assert same(cache.past, joined(first, third))
    assert same(left.past, joined(first, second, fourth))


def test_rows_are_chosen_and_go_on() -> None:
    first, rows, more = some(3, 35), torch.tensor([2, 0, 0, 1]), some(4, 1)
    cache = GrowingCache()
    cache.extend(first)
    chosen = cache.select(rows)
    again = chosen.fork()
    assert same(chosen.past, first.select(rows))
    assert same(again.extend(more), joined(first.select(rows), more))
    assert same(chosen.past, first.select(rows))
    assert same(cache.past, first)


def test_gradients_flow_and_inference_tensors_are_left_alone() -> None:
    first, second = some(2, 2, grad=True), some(2, 1, grad=True)
    cache = GrowingCache()
    cache.extend(first)
    cache.select(torch.tensor([1])).extend(some(1, 1))
    cache.extend(second).keys.sum().backward()
    assert first.keys.grad is not None
    assert second.keys.grad is not None
    with torch.inference_mode():
        inside = GrowingCache()
        past = some(2, 2)
        inside.extend(past)
    more = some(2, 1)
    assert same(inside.fork().extend(more), joined(past, more))
