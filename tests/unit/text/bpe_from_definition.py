"""Byte-pair encoding from its definition, with loops: slow, short, and the judge of what the library learns."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise


def learn_merges(words: dict[str, int], most: int) -> list[tuple[str, int]]:
    """Count adjacent pairs inside words, merge the most frequent, repeat until `most` tokens or no pair occurs twice.

    Gives each new token with the frequency of its pair when it was merged. The definition does not say which of equally
    frequent pairs comes first; here, as in sentencepiece, it is the one whose token is shorter, then whose token is
    first by code point.
    """
    spelled = [(list(word), count) for word, count in words.items()]
    tokens: dict[str, int] = {}
    while len(tokens) < most:
        pairs: Counter[tuple[str, str]] = Counter()
        for symbols, count in spelled:
            for pair in pairwise(symbols):
                pairs[pair] += count
        frequent = [(-n, len(a + b), a + b, (a, b)) for (a, b), n in pairs.items() if n > 1 and a + b not in tokens]
        if not frequent:
            break
        minus_count, _, token, pair = min(frequent)
        tokens[token] = -minus_count
        spelled = [(merge(symbols, pair), count) for symbols, count in spelled]
    return list(tokens.items())


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


def encode(word: str, tokens: list[str]) -> list[str]:
    """Join neighbors whose joint text is a token, the earliest learned first, the leftmost first, until none is."""
    rank = {token: i for i, token in enumerate(tokens)}
    symbols = list(word)
    while True:
        candidates = [(rank[a + b], i) for i, (a, b) in enumerate(pairwise(symbols)) if a + b in rank]
        if not candidates:
            return symbols
        _, i = min(candidates)
        symbols[i : i + 2] = [symbols[i] + symbols[i + 1]]
