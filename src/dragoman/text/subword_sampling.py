"""Other segmentations of the same word, drawn at random while training, so that a model meets its tokens in company.

BPE-dropout (Provilkov et al., 2020) and subword regularization (Kudo, 2018) for one word at a time. They are written
here, and not taken from sentencepiece, because its generator cannot be seeded again within a thread, and a training run
that is continued must draw what the run that was not stopped would have drawn. `native/subword_sampling/` does the same
for whole batches, number for number; without a C compiler this is what is used.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from itertools import accumulate
from typing import Final

from dragoman.randomness import GAMMA, MASK, mix64

Lattice = list[tuple[list[int], list[float]]]
"""For each end: where tokens that end there start, and the running sum of their probabilities."""

NEVER: Final = 2.0**62
UNKNOWN_SCORE: Final = -100.0  # any number: a character without a token can be spelled in one way only


class Draws:
    """Random numbers of which the k-th is a function of (seed, k): splitmix64 (Steele, Lea and Flood, 2014).

    Whether a candidate is left out, with probability `alpha`, is drawn for many at once: `kept` of them stay before the
    next is left out, and most words come through untouched.
    """

    def __init__(self, seed: int, alpha: float) -> None:
        self.state = seed & MASK
        self.scale = run_scale(alpha)
        self.kept = self.run()

    def uniform(self) -> float:
        """From 0 to 1, which is not reached."""
        self.state = self.state + GAMMA & MASK
        return (mix64(self.state) >> 11) * 2.0**-53

    def run(self) -> int:
        """How many candidates in a row stay."""
        return int(min(math.log(1 - self.uniform()) * self.scale, NEVER))

    def left_out(self) -> bool:
        """Whether the next candidate is left out."""
        if self.kept:
            self.kept -= 1
            return False
        self.kept = self.run()
        return True


def run_scale(alpha: float) -> float:
    """By which the logarithm of a uniform number becomes the length of a run without a drop."""
    return max(1 / math.log1p(-alpha), -1e18) if alpha < 1 else 0.0


def bpe_dropout(word: str, ranks: Mapping[str, int], draws: Draws | None = None) -> list[str]:
    """Merge as BPE does, but at each step leave out some candidates; none without `draws`.

    Candidates are drawn from best to worst until one stays: those behind it would not have been chosen anyway.
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
        if draws is not None and draws.left_out():
            left_out.append(candidate)
            continue
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


def draw(word: str, lattice: Lattice, draws: Draws) -> list[str]:
    """One segmentation from the lattice, from its end to its start."""
    tokens = []
    end = len(word)
    while end:
        starts, sums = lattice[end]
        start = starts[min(bisect(sums, draws.uniform() * sums[-1]), len(starts) - 1)]
        tokens.append(word[start:end])
        end = start
    return tokens[::-1]
