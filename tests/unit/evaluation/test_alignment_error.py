"""The alignment error rate against examples worked by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import DataError
from dragoman.evaluation.alignment_error import GoldAlignment, read_gold, score_alignment
from raising import raises

LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=9)


def test_by_hand() -> None:
    # S = {00, 11}, P = {00, 11, 12, 22}; A = {00, 12, 33, 22}: 1 in S, 3 in P, |A| = 4, |S| = 2.
    gold = [GoldAlignment.parse("0-0 1-1 1p2 2?2")]
    found = score_alignment([[(0, 0), (1, 2), (3, 3), (2, 2)]], gold)
    assert found.precision == 3 / 4
    assert found.recall == 1 / 2
    assert found.error_rate == pytest.approx(1 - (1 + 3) / (4 + 2))


def test_counts_are_summed_over_sentences() -> None:
    # Two of three found are sure, of four sure ones: AER = 1 - (2 + 2) / (3 + 4).
    gold = [GoldAlignment.parse("0-0"), GoldAlignment.parse("0-0 1-1 2-2")]
    found = score_alignment([[(0, 0)], [(0, 0), (1, 0)]], gold)
    assert found.error_rate == pytest.approx(3 / 7)
    assert (found.precision, found.recall) == (2 / 3, 2 / 4)


@given(LINKS, LINKS)
@settings(max_examples=60, deadline=None)
def test_without_possible_links_it_is_one_minus_f1(found: frozenset, sure: frozenset) -> None:
    if not found or not sure:
        return
    got = score_alignment([found], [GoldAlignment(sure, sure)])
    shared = len(found & sure)
    f1 = 2 * shared / (len(found) + len(sure))
    assert got.error_rate == pytest.approx(1 - f1)
    assert score_alignment([sure], [GoldAlignment(sure, sure)]).error_rate == 0


def test_files_and_where_counting_begins(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("1-1 2p3\n\n3-1\n")
    gold = read_gold(path, first=1)
    assert gold[0] == GoldAlignment(frozenset({(0, 0)}), frozenset({(0, 0), (1, 2)}))
    assert gold[1] == GoldAlignment(frozenset(), frozenset())
    assert gold[2].sure == {(2, 0)}


def test_what_is_no_alignment_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "gold"
    path.write_text("0-0\n1-1 a-b\n")
    with raises(DataError, "invalid_link", "line 2: 'a-b'"):
        read_gold(path)
    with raises(DataError, "out_of_range", "line 1: '0-0'"):
        read_gold(path, first=1)
    with raises(DataError, "count_mismatch"):
        score_alignment([[]], [GoldAlignment.parse(""), GoldAlignment.parse("")])
    with raises(DataError, "no_data"):
        score_alignment([[]], [GoldAlignment.parse("")])
