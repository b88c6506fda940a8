"""Sampling against the distributions that define it."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, pairwise
from random import Random

import pytest
from bpe_from_definition import encode

from dragoman.text import Tokenizer
from dragoman.text.sentencepiece import SentencePieceTokenizer
from dragoman.text.subword_sampling.segmentation import DropStream, bpe_dropout, sample_path, unigram_lattice
from dragoman.text.token_table import FIRST_LEARNED


def splits(word: str) -> list[list[str]]:
    """Every way to cut a word."""
    inner = range(1, len(word))
    cuts = [c for n in range(len(word)) for c in combinations(inner, n)]
    return [[word[a:b] for a, b in zip((0, *c), (*c, len(word)), strict=True)] for c in cuts]


def test_the_generator_is_splitmix64() -> None:
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    draws = DropStream(1234567, 0.1)
    draws.state = 1234567
    assert [draws.uniform() * 2**53 for _ in published] == [number >> 11 for number in published]


@pytest.mark.parametrize("alpha", [1e-320, 1e-17, 0.3, 1.0])
def test_runs_without_a_drop_are_as_long_as_the_probability_says(alpha: float) -> None:
    n, draws = 20_000, DropStream(3, alpha)
    share = sum(draws.drops_next() for _ in range(n)) / n
    assert abs(share - alpha) <= 5 * math.sqrt(alpha * (1 - alpha) / n) + 1e-300


def test_unigram_draws_each_segmentation_as_often_as_its_probability_says() -> None:
    scores = {"a": -2.0, "b": -2.5, "c": -1.5, "ab": -2.2, "bc": -3.0, "abc": -4.1, "ca": -2.9}
    word, alpha, n = "abcab", 0.6, 20_000
    weights = {
        tuple(cut): math.exp(alpha * sum(scores[token] for token in cut))
        for cut in splits(word)
        if all(token in scores for token in cut)
    }
    lattice, draws = unigram_lattice(word, scores, 3, alpha), DropStream(5, alpha)
    drawn = Counter(tuple(sample_path(word, lattice, draws)) for _ in range(n))
    assert set(drawn) == set(weights)
    for cut, weight in weights.items():
        p = weight / sum(weights.values())
        assert abs(drawn[cut] / n - p) < 5 * math.sqrt(p * (1 - p) / n)


def dropout_by_the_paper(word: str, ranks: dict[str, int], alpha: float, random: Random) -> list[str]:
    """Algorithm 1 of Provilkov et al. (2020): every candidate is drawn for at every step."""
    symbols = list(word)
    while True:
        candidates = [
            (ranks[a + b], i)
            for i, (a, b) in enumerate(pairwise(symbols))
            if a + b in ranks and random.random() >= alpha
        ]
        if not candidates:
            return symbols
        _, i = min(candidates)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]


@pytest.mark.parametrize(
    ("word", "alpha"), [("abcabc", 0.35), ("abcabc", 0.05), ("caabcab", 0.6), ("ab", 0.5), ("ab", 1.0)]
)
@pytest.mark.parametrize("on", [False, True], ids=["a seed each", "word after word"])
def test_bpe_dropout_has_the_distribution_of_its_algorithm(word: str, alpha: float, on: bool) -> None:
    ranks = {token: i for i, token in enumerate(["ab", "bc", "abc", "ca", "abca"])}
    n, ours, theirs = 8_000, DropStream(1, alpha), Random(2)
    one = Counter(tuple(bpe_dropout(word, ranks, ours if on else DropStream(seed, alpha))) for seed in range(n))
    two = Counter(tuple(dropout_by_the_paper(word, ranks, alpha, theirs)) for _ in range(n))
    for cut in one | two:
        p = (one[cut] + two[cut]) / (2 * n)
        assert abs(one[cut] - two[cut]) / n <= 5 * math.sqrt(2 * p * (1 - p) / n)


def test_without_dropout_it_is_bpe(tokenizers: dict[str, Tokenizer], corpus: list[str]) -> None:
    tokenizer = tokenizers["bpe"]
    tokens = [name for name in tokenizer.tokens(range(FIRST_LEARNED, tokenizer.vocabulary_size)) if len(name) > 1]
    ranks = {token: i for i, token in enumerate(tokens)}
    for word in {f"▁{word}" for line in corpus for word in line.split() if word.isascii()}:
        expected = encode(word, tokens)
        assert bpe_dropout(word, ranks) == expected
        assert tokenizer.tokens(tokenizer.encode(word[1:])) == expected


def test_a_word_that_is_known_to_stay_plain_takes_the_same_draws(tokenizers: dict[str, Tokenizer]) -> None:
    tokenizer = tokenizers["bpe"]
    assert isinstance(tokenizer, SentencePieceTokenizer)
    for seed in range(60):
        one, two = DropStream(seed, 0.1), DropStream(seed, 0.1)
        for word in (" lighthouse", " keeper", " counted", " ÿ", " the"):
            found = tokenizer.spell(bpe_dropout(word, tokenizer.ids, two))
            assert tokenizer.sample_word(word, 0.1, one) == found
        assert (one.state, one.kept) == (two.state, two.kept)


def test_a_high_power_finds_the_best_segmentation(tokenizers: dict[str, Tokenizer], corpus: list[str]) -> None:
    tokenizer = tokenizers["unigram"]
    for line in corpus[:20]:
        assert tokenizer.sample(line, 1e5, 3) == tokenizer.encode(line)


@pytest.mark.parametrize("alpha", [0.15, 0.4])
def test_seeds_and_alpha_matter(tokenizer: Tokenizer, corpus: list[str], alpha: float) -> None:
    assert len({tuple(tokenizer.sample(corpus[1], alpha, seed)) for seed in range(40)}) > 4


def test_everything_dropped_leaves_characters(tokenizers: dict[str, Tokenizer]) -> None:
    for kind in ("bpe", "wordpiece"):
        tokens = tokenizers[kind].tokens(tokenizers[kind].sample("the old box", 1.0, 4))
        assert tokens == list("▁the▁old▁box")
