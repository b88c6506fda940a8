"""sentencepiece's BPE against its definition; docs/howto/tokenizers.md lists where they may differ."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest
from bpe_from_definition import encode, learn_merges, merge
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dragoman.text import normalize
from dragoman.text.learn import learn
from dragoman.text.token_table import FIRST_LEARNED
from dragoman.text.tokenizer import SubwordTokenizer

# Three equal parts in a row, such as "aaa" or "bababa" once "ba" is merged, hold a pair that overlaps itself; whether
# it counts once or twice is not defined.
WORDS = st.text(st.sampled_from("abcdef"), min_size=1, max_size=8).filter(lambda w: not re.search(r"(.+)\1\1", w))
CORPORA = st.dictionaries(WORDS, st.integers(1, 9), min_size=1, max_size=14)


def learned(words: dict[str, int], size: int) -> tuple[SubwordTokenizer, list[str], int]:
    """The library's tokenizer, its merged tokens in order, and the number of single letters."""
    tokenizer = learn("bpe", [" ".join([word] * count) for word, count in words.items()], size, character_coverage=1.0)
    assert isinstance(tokenizer, SubwordTokenizer)
    names = tokenizer.table.names[FIRST_LEARNED:]
    merged = [name for name in names if len(name) > 1]
    return tokenizer, merged, len(names) - len(merged)


@given(words=CORPORA, size=st.integers(280, 320))
@settings(max_examples=120, deadline=None)
def test_the_librarys_merges_are_the_definitions(words: dict[str, int], size: int) -> None:
    tokenizer, merged, letters = learned(words, size)
    reference = learn_merges({f"▁{word}": count for word, count in words.items()}, size - FIRST_LEARNED - letters)
    assert merged == [token for token, _ in reference]
    for word in words:
        assert tokenizer.tokens(tokenizer.encode(word)) == encode(f"▁{word}", merged)


@given(words=CORPORA)
@settings(max_examples=60, deadline=None)
def test_each_merge_is_of_a_most_frequent_pair_whichever_way_ties_are_broken(words: dict[str, int]) -> None:
    _, merged, _ = learned(words, 300)
    assume(merged)
    spelled = [(list(f"▁{word}"), count) for word, count in words.items()]
    for done, token in enumerate(merged):
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in spelled:
            for pair in pairwise(symbols):
                pairs[pair] += count
        left = {pair: n for pair, n in pairs.items() if "".join(pair) not in merged[:done]}
        best = max(pair for pair, n in left.items() if "".join(pair) == token and n == max(left.values()))
        assert left[best] > 1
        spelled = [(merge(symbols, best), count) for symbols, count in spelled]


def test_the_textbook_example() -> None:
    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    _, merged, letters = learned(words, FIRST_LEARNED + 11 + 11)
    assert letters == 11
    assert merged[:5] == ["es", "est", "lo", "low", "▁low"]


def test_real_sentences(corpus: list[str]) -> None:
    """Sentences with punctuation, which the library cuts at; words alone are what the definition knows."""
    lines = [re.sub(r"[^a-zäöüß ]", "", normalize(line).lower()) for line in corpus]
    words = Counter(word for line in lines for word in line.split())
    tokenizer, merged, letters = learned(words, 500)
    assert merged == [
        token for token, _ in learn_merges({f"▁{word}": n for word, n in words.items()}, 500 - FIRST_LEARNED - letters)
    ]
    assert tokenizer.vocabulary_size == 500


@pytest.mark.parametrize(("words", "expected"), [({"ab": 1, "cd": 1}, []), ({"ab": 2, "cd": 1}, ["ab", "▁ab"])])
def test_it_stops_where_no_pair_occurs_twice(words: dict[str, int], expected: list[str]) -> None:
    assert learned(words, 400)[1] == expected
