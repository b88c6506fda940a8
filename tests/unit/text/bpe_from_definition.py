"""Byte-pair encoding from its definition, with loops: slow, short, and the judge of what the library learns."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise


def learn_merges(words: dict[str, int], most: int) -> list[tuple[str, int]]:
    """Count adjacent pairs inside words, merge the most frequent, repeat until `most` pieces or no pair occurs twice.

    Gives each new piece with the frequency of its pair when it was merged. The definition does not say which of equally
    frequent pairs comes first; here, as in sentencepiece, it is the one whose piece is shorter, then whose piece is
    first by code point.
    """
    spelt = [(list(word), count) for word, count in words.items()]
    pieces: dict[str, int] = {}
    while len(pieces) < most:
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in spelt:
            for pair in pairwise(symbols):
                pairs[pair] += count
        frequent = [(-n, len(a + b), a + b, (a, b)) for (a, b), n in pairs.items() if n > 1 and a + b not in pieces]
        if not frequent:
            break
        minus_count, _, piece, pair = min(frequent)
        pieces[piece] = -minus_count
        spelt = [(merge(symbols, pair), count) for symbols, count in spelt]
    return list(pieces.items())


def merge(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    """Join each occurrence of the pair, from left to right."""
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            merged.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def encode(word: str, pieces: list[str]) -> list[str]:
    """Join neighbours whose joint text is a piece, the earliest learnt first, the leftmost first, until none is."""
    rank = {piece: i for i, piece in enumerate(pieces)}
    symbols = list(word)
    while True:
        candidates = [(rank[a + b], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in rank]
        if not candidates:
            return symbols
        _, i = min(candidates)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
