"""Other segmentations of the same word, drawn at random while training, so that a model meets its pieces in company.

BPE-dropout (Provilkov et al., 2020) and subword regularisation (Kudo, 2018) for one word at a time. They are written
here, and not taken from sentencepiece, because its generator cannot be seeded again within a thread, and a training run
that is continued must draw what the run that was not stopped would have drawn.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import accumulate
from random import Random

Lattice = list[tuple[list[int], list[float]]]
"""For each end: where pieces that end there start, and the running sum of their probabilities."""

UNKNOWN_SCORE = -100.0  # any number: a character without a piece can be spelt in one way only


def kept_before_a_drop(alpha: float, random: Random) -> int:
    """How many candidates in a row stay: one draw for all of them, since most words come through untouched."""
    return int(math.log(1 - random.random()) / math.log1p(-alpha)) if alpha < 1 else 0


def bpe_dropout(word: str, ranks: Mapping[str, int], alpha: float, random: Random, kept: int = -1) -> list[str]:
    """Merge as BPE does, but at each step leave out each candidate with probability `alpha`; 0 is plain BPE.

    Candidates are drawn from best to worst until one stays: those behind it would not have been chosen anyway. The
    first `kept` of them stay and the next does not, where that has been drawn before.
    """
    symbols = list(word)
    before, after = list(range(-1, len(word) - 1)), list(range(1, len(word) + 1))
    queue = [(ranks[pair], i, pair) for i in range(len(word) - 1) if (pair := word[i : i + 2]) in ranks]
    heapify(queue)
    left_out: list[tuple[int, int, str]] = []
    while queue:
        candidate = heappop(queue)
        _, left, merged = candidate
        right = after[left]
        if right >= len(symbols) or not symbols[left] or symbols[left] + symbols[right] != merged:
            continue  # one of the two has been merged with another since
        if kept == 0 or (kept < 0 and random.random() < alpha):
            kept = -1
            left_out.append(candidate)
            continue
        kept -= kept > 0
        for waiting in left_out:
            heappush(queue, waiting)
        left_out.clear()
        symbols[left], symbols[right] = merged, ""
        after[left] = after[right]
        if after[left] < len(symbols):
            before[after[left]] = left
        for start in (before[left], left):
            if start >= 0 and after[start] < len(symbols):
                pair = symbols[start] + symbols[after[start]]
                if pair in ranks:
                    heappush(queue, (ranks[pair], start, pair))
    return [symbol for symbol in symbols if symbol]


def unigram_lattice(word: str, scores: Mapping[str, float], longest: int, alpha: float) -> Lattice:
    """All segmentations of a word, each weighted by its probability to the power of `alpha`, summed in logarithms."""
    forward = [0.0]
    lattice: Lattice = [([], [])]
    for end in range(1, len(word) + 1):
        starts = [s for s in range(max(0, end - longest), end) if s == end - 1 or word[s:end] in scores]
        logs = [forward[s] + alpha * scores.get(word[s:end], UNKNOWN_SCORE) for s in starts]
        highest = max(logs)
        sums = list(accumulate(math.exp(value - highest) for value in logs))
        forward.append(highest + math.log(sums[-1]))
        lattice.append((starts, sums))
    return lattice


def draw(word: str, lattice: Lattice, random: Random) -> list[str]:
    """One segmentation from the lattice, from its end to its start."""
    pieces = []
    end = len(word)
    while end:
        starts, sums = lattice[end]
        start = starts[min(bisect(sums, random.random() * sums[-1]), len(starts) - 1)]
        pieces.append(word[start:end])
        end = start
    return pieces[::-1]
