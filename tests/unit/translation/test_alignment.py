"""Word alignment from attention, against examples worked by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dragoman.text import learn
from dragoman.text.word_groups import group_tokens, visible_word_ids
from dragoman.translation.alignment import align, link_words
from tiny_model import LINES

# ▁the ▁win dow -> ▁das ▁Fen ster
SOURCE, TARGET = ["▁the", "▁win", "dow"], ["▁das", "▁Fen", "ster"]
WEIGHTS = np.array(
    [
        [0.8, 0.1, 0.1, 0.0],  # das: the
        [0.1, 0.3, 0.2, 0.4],  # Fen: win, or the EOS token
        [0.4, 0.3, 0.3, 0.0],  # ster: the by token; window, 0.6, by word
    ]
)


def test_each_token_points_at_a_token() -> None:
    assert align(WEIGHTS[:, :3], SOURCE, TARGET) == [(0, 0), (0, 1), (1, 1)]


def test_words_sum_what_they_get_and_average_what_they_give() -> None:
    # Fenster, the mean of its two rows: the 0.25, window 0.55.
    assert link_words(WEIGHTS[:, :3], [0, 1, 1], [0, 1, 1], by="word") == [(0, 0), (1, 1)]


def test_tokens_that_attend_to_eos_most_have_no_link() -> None:
    assert link_words(WEIGHTS, [0, 1, 1], [0, 1, 1], by="token") == [(0, 0), (0, 1)]
    only = np.array([[0.2, 0.1, 0.1, 0.6]])
    assert link_words(only, [0, 1, 1], [0], by="word") == []
    assert link_words(only[:, :3], [0, 1, 1], [0], by="word") == [(0, 0)]


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
    assert link_words(np.eye(3), [0, -1, 1], [-1, 0, 1], by="word") == [(1, 1)]
    assert link_words(np.eye(2), [0, 1], [-1, -1], by="word") == []


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
def test_by_word_is_the_loop_from_the_definition(data: st.DataObject) -> None:
    T, S = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
    weights = data.draw(arrays.arrays(np.float64, (T, S), elements=st.integers(0, 97).map(float), unique=T * S < 90))
    to = sorted(data.draw(st.lists(st.integers(0, 3), min_size=T, max_size=T)))
    of = sorted(data.draw(st.lists(st.integers(0, 2), min_size=S, max_size=S)))
    expected = []
    for t in sorted(set(to)):
        mean = {}
        for s in sorted(set(of)):
            block = [weights[i, j] for i in range(T) for j in range(S) if to[i] == t and of[j] == s]
            mean[s] = sum(block) / to.count(t)
        best = max(mean.values())
        expected.append((next(s for s in mean if mean[s] >= best - 1e-9), t))
    assert link_words(weights, of, to, by="word") == sorted(expected)
