"""Sampling against the distributions it is defined by."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, pairwise
from random import Random

import pytest
from bpe_from_definition import encode

from dragoman.text import Tokeniser
from dragoman.text.pieces import FIRST_LEARNT
from dragoman.text.sampling import bpe_dropout, draw, kept_before_a_drop, unigram_lattice


def splits(word: str) -> list[list[str]]:
    """Every way to cut a word."""
    inner = range(1, len(word))
    cuts = [c for n in range(len(word)) for c in combinations(inner, n)]
    return [[word[a:b] for a, b in zip((0, *c), (*c, len(word)), strict=True)] for c in cuts]


def test_unigram_draws_each_segmentation_as_often_as_its_probability_says() -> None:
    scores = {"a": -2.0, "b": -2.5, "c": -1.5, "ab": -2.2, "bc": -3.0, "abc": -4.1, "ca": -2.9}
    word, alpha, n = "abcab", 0.6, 20_000
    weights = {
        tuple(cut): math.exp(alpha * sum(scores[piece] for piece in cut))
        for cut in splits(word)
        if all(piece in scores for piece in cut)
    }
    lattice, random = unigram_lattice(word, scores, 3, alpha), Random(5)
    drawn = Counter(tuple(draw(word, lattice, random)) for _ in range(n))
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
@pytest.mark.parametrize("ahead", [False, True], ids=["each candidate", "the first drop drawn ahead"])
def test_bpe_dropout_has_the_distribution_of_its_algorithm(word: str, alpha: float, ahead: bool) -> None:
    ranks = {piece: i for i, piece in enumerate(["ab", "bc", "abc", "ca", "abca"])}
    n, ours, theirs = 8_000, Random(1), Random(2)
    plain = bpe_dropout(word, ranks, 0.0, ours)

    def once() -> tuple[str, ...]:
        kept = kept_before_a_drop(alpha, ours) if ahead else -1
        return tuple(plain if kept >= len(word) - len(plain) else bpe_dropout(word, ranks, alpha, ours, kept))

    one = Counter(once() for _ in range(n))
    two = Counter(tuple(dropout_by_the_paper(word, ranks, alpha, theirs)) for _ in range(n))
    for cut in one | two:
        p = (one[cut] + two[cut]) / (2 * n)
        assert abs(one[cut] - two[cut]) / n <= 5 * math.sqrt(2 * p * (1 - p) / n)


def test_without_dropout_it_is_bpe(tokenisers: dict[str, Tokeniser], corpus: list[str]) -> None:
    tokeniser = tokenisers["bpe"]
    pieces = [name for name in tokeniser.pieces(range(FIRST_LEARNT, tokeniser.vocabulary_size)) if len(name) > 1]
    ranks = {piece: i for i, piece in enumerate(pieces)}
    for word in {f"▁{word}" for line in corpus for word in line.split() if word.isascii()}:
        expected = encode(word, pieces)
        assert bpe_dropout(word, ranks, 0.0, Random(0)) == expected
        assert tokeniser.pieces(tokeniser.encode(word[1:])) == expected


def test_a_high_power_finds_the_best_segmentation(tokenisers: dict[str, Tokeniser], corpus: list[str]) -> None:
    tokeniser = tokenisers["unigram"]
    for line in corpus[:20]:
        assert tokeniser.sample(line, 1e5, 3) == tokeniser.encode(line)


@pytest.mark.parametrize("alpha", [0.15, 0.4])
def test_seeds_and_alpha_matter(tokeniser: Tokeniser, corpus: list[str], alpha: float) -> None:
    assert len({tuple(tokeniser.sample(corpus[1], alpha, seed)) for seed in range(40)}) > 4


def test_everything_dropped_leaves_characters(tokenisers: dict[str, Tokeniser]) -> None:
    for kind in ("bpe", "wordpiece"):
        pieces = tokenisers[kind].pieces(tokenisers[kind].sample("the old box", 1.0, 4))
        assert pieces == list("▁the▁old▁box")
