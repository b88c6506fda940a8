"""Word alignment from attention, against examples worked by hand."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dragoman.text.learn import learn
from dragoman.text.word_groups import group_tokens, visible_word_ids
from dragoman.translation.alignment import MIN_STRENGTH, align, is_linked, lettered_words, link_words
from tiny_model import LINES

# ▁the ▁win dow , -> ▁das ▁Fen ster ,
SOURCE, TARGET = ["▁the", "▁win", "dow", ","], ["▁das", "▁Fen", "ster", ","]
WEIGHTS = np.array(
    [
        [0.7, 0.1, 0.1, 0.1, 0.0],  # das: the
        [0.1, 0.4, 0.1, 0.0, 0.4],  # Fen: win, or the EOS token
        [0.2, 0.3, 0.3, 0.2, 0.0],  # ster: window
        [0.6, 0.1, 0.1, 0.2, 0.0],  # the comma attends to "the", which must not count
    ]
)


def test_source_words_are_linked_to_the_words_that_attend_to_them() -> None:
    # The gets 0.7 of das and 0.15 of Fenster, window 0.2 and 0.55: the tokens of a target word are averaged.
    assert align(WEIGHTS, SOURCE, TARGET) == [(0, 0), (1, 1)]
    assert align(WEIGHTS[:, :4], SOURCE, TARGET) == [(0, 0), (1, 1)]  # without the EOS token


def test_a_word_has_several_links_or_none() -> None:
    both = np.array([[0.4, 0.4, 0.0]])  # one word translates two
    assert link_words(both, [0, 1, 2], [0], [False] * 3, [False]) == [(0, 0), (1, 0)]
    shared = np.array([[0.5, 0.1], [0.5, 0.1]])  # two words share one, and neither has much to do with the other
    assert link_words(shared, [0, 1], [0, 1], [False] * 2, [False] * 2) == [(0, 0), (0, 1)]
    spread = np.array([[0.3, 0.1], [0.3, 0.1], [0.3, 0.1]])  # three words attend alike: none stands out
    assert link_words(spread, [0, 1], [0, 1, 2], [False] * 2, [False] * 3) == []
    faint = np.array([[0.9, 0.04], [0.06, 0.0]])  # most of what the second word gets is hardly anything
    assert link_words(faint, [0, 1], [0, 1], [False] * 2, [False] * 2) == [(0, 0)]


def test_punctuation_is_linked_with_punctuation() -> None:
    weights = np.array([[0.6, 0.4], [0.5, 0.5]])
    assert link_words(weights, [0, 1], [0, 1], [False, True], [False, True]) == [(0, 0), (1, 1)]
    assert lettered_words(["▁so", ",", "▁", "–", "▁1", "%"]) == ([0, -1, 1, 1, 2, -1], [False, True, False])
    assert lettered_words(["▁<0xC3>", "<0xA9>", "▁a"]) == ([0, 0, 1], [False, False])


def test_nothing_is_aligned_with_nothing() -> None:
    assert align(np.zeros((0, 2)), ["▁a", "b"], []) == []
    assert align(np.zeros((2, 0)), [], ["▁a", "b"]) == []


def test_words_begin_at_spaces_and_where_no_spaces_are_written_at_each_token() -> None:
    assert group_tokens(["▁the", "▁win", "dow", "s", "▁are"]) == [[0], [1, 2, 3], [4]]
    assert group_tokens(["我们", "去", "学校"]) == [[0], [1], [2]]
    assert group_tokens(["▁GPU", "▁", "很", "快"]) == [[0], [1, 2], [3]]
    assert group_tokens(["con", "tinued", "▁here"]) == [[0, 1], [2]]
    assert group_tokens([]) == []


def test_a_space_that_nothing_follows_is_no_word() -> None:
    assert visible_word_ids(["▁"]) == [-1]
    assert visible_word_ids(["▁", "▁the", "▁", "▁win", "dow", "▁"]) == [-1, 0, -1, 1, 1, -1]
    assert visible_word_ids(["▁", "win", "dow"]) == [0, 0, 0]
    assert visible_word_ids(["▁GPU", "▁", "很", "快"]) == [0, 1, 1, 2]
    assert visible_word_ids(["<0x20>", "▁the"]) == [-1, 0]
    for silent in ("<0x00>", "<0x01>", "<0x0A>", "<0x1F>", "<0x7F>"):  # as control characters write nothing
        assert visible_word_ids(["▁", silent, "▁the", silent, "▁win"]) == [-1, -1, 0, 0, 1]
    assert visible_word_ids(["▁", "<0x21>", "▁the"]) == [0, 0, 1]
    assert visible_word_ids([]) == []


def test_a_space_that_nothing_follows_is_linked_with_nothing() -> None:
    assert align(np.ones((1, 3)), ["▁the", "▁box"], ["▁"]) == []
    assert align(np.ones((3, 1)), ["▁"], ["▁der", "▁Kas", "ten"]) == []
    assert align(np.eye(3), ["▁a", "▁", "▁b"], ["▁", "▁der", "▁Kasten"]) == [(1, 1)]
    assert link_words(np.eye(3), [0, -1, 1], [-1, 0, 1], [False] * 2, [False] * 2) == [(1, 1)]
    assert link_words(np.eye(2), [0, 1], [-1, -1], [False] * 2, []) == []


TOKENISER = learn("bpe", [line for line in LINES if line.isascii()] * 4, 330)


@given(st.lists(st.integers(4 + 256, TOKENISER.vocabulary_size - 1) | st.just(TOKENISER.to_ids(["▁"])[0]), max_size=9))
def test_words_are_counted_as_a_reader_does(ids: list[int]) -> None:
    numbers = visible_word_ids(TOKENISER.tokens(ids))
    words = TOKENISER.decode(ids).split()
    for number, word in enumerate(words):
        assert TOKENISER.decode([i for i, n in zip(ids, numbers, strict=True) if n == number]).strip() == word
    assert max(numbers, default=-1) + 1 == len(words)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_rule_is_the_loop_from_the_definition(data: st.DataObject) -> None:
    T, S = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
    elements = st.integers(0, 97).map(lambda n: n / 97)
    weights = data.draw(arrays.arrays(np.float64, (T, S), elements=elements, unique=T * S < 90))
    to = sorted(data.draw(st.lists(st.integers(0, 3), min_size=T, max_size=T)))
    of = sorted(data.draw(st.lists(st.integers(0, 2), min_size=S, max_size=S)))
    marks = [data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for n in (max(of) + 1, max(to) + 1)]

    def given_by(t: int, s: int) -> float:
        if marks[0][s] != marks[1][t] or t not in to:
            return 0.0
        return float(sum(weights[i, j] for i in range(T) for j in range(S) if to[i] == t and of[j] == s) / to.count(t))

    expected = []
    for s in range(max(of) + 1):
        gets = [given_by(t, s) for t in range(max(to) + 1)]
        for t, weight in enumerate(gets):
            given = sum(given_by(t, other) for other in range(max(of) + 1))
            strength = (weight * weight / given * (weight / sum(gets)) ** 4) ** (1 / 6) if weight else 0.0
            if abs(strength - MIN_STRENGTH) < 1e-9:
                return  # rounding decides
            expected += [(s, t)] * (strength >= MIN_STRENGTH)
    assert link_words(weights, of, to, *marks) == expected


def test_the_rule_is_the_same_for_batches_of_torch() -> None:
    weights = np.random.default_rng(3).random((5, 3, 4, 7)) ** 4
    linked = is_linked(torch.from_numpy(weights))
    assert linked.any() and not linked.all()
    for found, one in zip(linked.flatten(0, 1), weights.reshape(-1, 4, 7), strict=True):
        assert np.array_equal(found.numpy(), is_linked(one))
    assert not is_linked(torch.zeros(2, 3)).any()
