"""Hypotheses in arrays against lists of them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import Hypothesis, Search, output_limits


def some_lists(seed: int, n: int = 7) -> list[list[Hypothesis]]:
    draw = random.Random(seed)
    return [
        [
            Hypothesis(
                [draw.randrange(99) for _ in range(draw.randrange(6))], -draw.random(), -draw.random(), rank == 1
            )
            for rank in range(draw.randrange(4))
        ]
        for _ in range(n)
    ]


def test_a_table_reads_as_the_lists_that_it_was_made_of() -> None:
    lists = some_lists(1)
    table = HypothesisTable.from_lists(lists)
    assert table == lists
    assert [*table] == lists
    assert table[-2] == lists[-2]
    assert table[1:6:2] == lists[1:6:2]
    assert len(table) == 7
    assert HypothesisTable.from_lists(table) is table
    with pytest.raises(IndexError):
        table[7]


def test_tables_are_joined_and_reordered() -> None:
    lists, others, order = some_lists(2), some_lists(3, 4), [8, 0, 10, 3, 3]
    joined = HypothesisTable.join([HypothesisTable.from_lists(each) for each in (lists, [], others)])
    assert joined == lists + others
    assert joined.take(order) == [(lists + others)[i] for i in order]
    assert HypothesisTable.join([]) == []
    assert joined.take([]) == []


def test_attention_stays_with_its_hypothesis() -> None:
    maps = [np.full((1, 2), number) for number in range(3)]
    lists = [
        [Hypothesis([5], -1.0, -1.0, False, maps[0])],
        [Hypothesis([6], -1.0, -1.0, False, one) for one in maps[1:]],
    ]
    plain = HypothesisTable.from_lists([[Hypothesis([7], -1.0, -1.0)]])
    table = HypothesisTable.join([plain, HypothesisTable.from_lists(lists)]).take([2, 0, 1])
    assert [one.maps is None for one in table[1]] == [True]
    assert [[int(one.maps[0, 0]) for one in table[i]] for i in (0, 2)] == [[1, 2], [0]]


def test_padded_rows_lose_their_padding() -> None:
    tokens = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    lengths, limits = np.array([[2, -1, 0], [4, 1, -1]]), np.array([2, 3])
    scores = np.arange(6.0).reshape(2, 3)
    assert HypothesisTable.from_padded(tokens, lengths, scores, scores + 9, limits) == [
        [Hypothesis([0, 1], 0.0, 9.0, True), Hypothesis([], 2.0, 11.0)],
        [Hypothesis([12, 13, 14, 15], 3.0, 12.0), Hypothesis([16], 4.0, 13.0)],
    ]


@pytest.mark.parametrize(
    "search", [Search(), Search(extra_length=3, min_length=9), Search(max_length=10**12), Search(max_length=4)]
)
def test_limits_of_many_lengths_are_those_of_each(search: Search) -> None:
    lengths = np.array([0, 1, 5, 70], np.int32)
    assert output_limits(search, lengths).tolist() == [search.limit(n) for n in lengths.tolist()]
    assert output_limits(search, lengths[:0]).tolist() == []
