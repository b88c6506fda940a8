"""The record of training lines: measured, stored and used."""

from __future__ import annotations

import json
from dataclasses import asdict
from random import Random

import pytest

from dragoman.text.line_lengths import MIN_SHARE, LineLengths, common_lengths


def made_up(n: int = 1000) -> tuple[list[int], list[int], list[int]]:
    draw = Random(1)
    sentences = [1 if draw.random() < 0.9 else 2 for _ in range(n)]
    source = [draw.randrange(4 * count, 10 * count) for count in sentences]
    return sentences, source, [2 * length + 1 for length in source]


def percentile(values: list[int], percent: float) -> float:
    """By the definition: linear between the closest ranks."""
    ordered, rank = sorted(values), percent / 100 * (len(values) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])


def test_measured_by_definition() -> None:
    sentences, source, target = made_up()
    found = LineLengths.measure(sentences, source, target, 99)
    assert found.longest == 99
    for n in (1, 2):
        group = [length for count, length in zip(sentences, source, strict=True) if count == n]
        assert found.shares[n - 1] == pytest.approx(len(group) / 1000, abs=1e-4)
        assert found.tokens[n - 1] == tuple(int(percentile(group, p)) for p in (50, 95, 99))
    assert found.ratio == (2.0, 2.0)


def test_stored_as_json() -> None:
    found = LineLengths.measure(*made_up(), 99)
    assert LineLengths.from_table(json.loads(json.dumps(asdict(found)))) == found
    for change in ({"shares": [1.0]}, {"tokens": [[1, 2]]}, {"longest": None}, {"ratio": [1]}, {"tokens": 3}):
        with pytest.raises(ValueError):
            LineLengths.from_table(asdict(found) | change)
    with pytest.raises(ValueError):
        LineLengths.from_table({})


def test_what_is_supported() -> None:
    found = LineLengths(30, (0.9, 0.1 - MIN_SHARE / 2, MIN_SHARE / 2), ((5, 9, 10), (8, 14, 15), (9, 20, 21)), (0.5, 2))
    assert [found.supports(1, n) for n in (9, 10)] == [True, False]
    assert [found.supports(2, n) for n in (14, 15)] == [True, False]
    assert not found.supports(3, 5)
    assert not found.supports(4, 5)


def test_a_gap_in_the_numbers_of_sentences() -> None:
    found = LineLengths.measure([1, 3], [4, 9], [4, 9], 9)
    assert (found.shares, found.tokens[1]) == ((0.5, 0.0, 0.5), (0, 0, 0))
    assert not found.supports(2, 0)


def test_models_that_differ_have_no_record_together() -> None:
    one, other = LineLengths.measure(*made_up(), 99), LineLengths.measure(*made_up(), 98)
    assert common_lengths([one, one]) == one
    assert common_lengths([one, other]) is None
    assert common_lengths([one, None]) is None
