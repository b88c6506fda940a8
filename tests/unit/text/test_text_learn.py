"""Learning tokenizers: deterministic, correct on small data, bounded on large data, and silent."""

from __future__ import annotations

from collections import Counter

import pytest

from dragoman.errors import TextError
from dragoman.text import normalize
from dragoman.text.learn import choose_alphabet, count_words, learn, limit_chunks, subsample
from dragoman.text.normalization import segments
from dragoman.text.token_table import FIRST_LEARNED
from raising import raises

KINDS = ["bpe", "unigram", "wordpiece"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_lines_give_the_same_tokenizer_silently(
    kind: str, corpus: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    one, two = learn(kind, corpus, 500), learn(kind, iter(corpus), 500)
    assert one.fingerprint == two.fingerprint
    assert one.vocabulary_size == 500 or (kind == "unigram" and 450 < one.vocabulary_size < 500)
    assert one.fingerprint != learn(kind, corpus[:-30], 500).fingerprint
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "lines", [["a"], ["我"], ["▁"], ["abc abc", "abd"], ["x" * 9000], ["1 2 3"], ["\x00 ok \u2028 ok"]]
)
def test_tiny_data_give_a_small_vocabulary_that_works(kind: str, lines: list[str]) -> None:
    tokenizer = learn(kind, lines, 8000)
    assert FIRST_LEARNED < tokenizer.vocabulary_size < 300
    for text in [*lines, "anything at all, 我们 ▁ 12"]:
        assert tokenizer.decode(tokenizer.encode(text)) == normalize(text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lines", [[], ["", " \t", "\n"], ["\x00\ufeff"]])
def test_no_text_is_refused(kind: str, lines: list[str]) -> None:
    with raises(TextError, "no_data"):
        learn(kind, lines, 500)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("morse", ["a"], 500), ("unknown_choice", "'morse'", "bpe, unigram, wordpiece")),
        (("bpe", "one text", 500), ("wrong_type",)),
        (("bpe", ["a"], 260), ("out_of_range", "vocabulary_size=260")),
        (("bpe", ["a"], -5), ("out_of_range",)),
        (("bpe", ["a\ud83d"], 500), ("invalid_character", "U+D83D")),
    ],
)
def test_impossible_requests_are_refused(arguments: tuple[str, list[str], int], expected: tuple[str, ...]) -> None:
    with raises(TextError, *expected):
        learn(*arguments)


def test_a_wrong_coverage_is_refused() -> None:
    with raises(TextError, "out_of_range", "character_coverage=1.5", "0.9995"):
        learn("bpe", ["a"], 500, character_coverage=1.5)


@pytest.mark.parametrize("kind", KINDS)
def test_more_characters_than_room_still_learn(kind: str) -> None:
    lines = ["".join(chr(0x4E00 + (i * 7 + j) % 400) for j in range(30)) for i in range(60)]
    tokenizer = learn(kind, lines, 300)
    assert tokenizer.vocabulary_size <= 300
    assert tokenizer.decode(tokenizer.encode(lines[0])) == lines[0]


def test_rare_characters_of_large_alphabets_are_left_to_bytes() -> None:
    few = Counter({"abc": 5000, "é": 2, "▁": 900, "z": 1})
    assert choose_alphabet(few, 0.5, 8000) == frozenset(" abcéz")
    assert choose_alphabet(few, 1.0, 266) == frozenset(" ab")
    many = Counter({chr(0x4E00 + number): 1 + 30_000 // (number + 1) for number in range(3000)})
    chosen = choose_alphabet(many, 0.99, 8000)
    assert 600 < len(chosen) < 3000
    covered = sum(many[character] for character in chosen) / many.total()
    assert 0.99 <= covered < 0.9901
    assert len(choose_alphabet(many, 0.99, 1260)) == 500
    assert len(choose_alphabet(many, 0.01, 16_000)) == 1000


def test_large_corpora_are_sampled_evenly_and_reproducibly() -> None:
    lines = [f"{number:06d}" for number in range(20_000)]
    kept = subsample(lines, 12_000)
    assert kept == subsample(iter(lines), 12_000) == sorted(kept)
    assert 800 < len(kept) <= 2000
    thirds = Counter(int(line) * 3 // 20_000 for line in kept)
    assert max(thirds.values()) < 1.4 * min(thirds.values())
    assert abs(sum(int(line) % 2 for line in kept) / len(kept) - 0.5) < 0.1  # both sides of interleaved pairs
    assert subsample(lines[:5], 30) == lines[:5]
    assert len(subsample(["x" * 100], 30)) == 1


def test_what_the_libraries_are_handed_is_bounded() -> None:
    table = Counter({f" w{number}": 1 + (number % 10 == 0) for number in range(1000)})
    assert limit_chunks(table) is table
    small = limit_chunks(table, 2500)
    assert abs(sum(map(len, small)) - 2500) < 400
    assert all(chunk in small for chunk, count in table.items() if count > 1)


def test_words_are_counted_after_normalizing() -> None:
    assert count_words(["a  b\xa0a", " b\u2028e\u0301 "]) == {"a": 2, "b": 2, "é": 1}


@pytest.mark.parametrize(
    ("chunk", "expected"),
    [
        (" don't", [" don", "'", "t"]),
        (" 1987,", [" ", "1", "9", "8", "7", ","]),
        ("我们的Python。", ["我们的", "Python", "。"]),
        (" (see", [" (", "see"]),
        ("नमस्ते", ["नमस्ते"]),
        (" ", [" "]),
    ],
)
def test_where_wordpiece_cuts(chunk: str, expected: list[str]) -> None:
    assert list(segments(chunk)) == expected
    assert "".join(segments(chunk)) == chunk


def test_what_is_no_text_or_no_size_is_refused() -> None:
    with raises(TextError, "wrong_type"):
        learn("bpe", ["the box", None], 300)
    with raises(TextError, "wrong_type", "vocabulary_size", "'300'"):
        learn("bpe", ["the box"], "300")
