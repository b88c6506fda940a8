"""Random segmentations of a word, for subword regularization in training.

BPE-dropout (Provilkov et al., 2020) and subword regularization (Kudo, 2018) for one word at a time. sentencepiece's own
sampling cannot be used: its generator cannot be reseeded within a thread, and a resumed run must sample what the
uninterrupted run would have sampled. `native/subword_sampling/` gives the same results for whole batches; this module
is the fallback without a C compiler.
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
"""For each end position: the starts of tokens that end there, and the running sum of their probabilities."""

NEVER: Final = 2.0**62
UNKNOWN_SCORE: Final = -100.0  # arbitrary: a character without a token has only one segmentation


class DropStream:
    """A random stream that drops candidates with probability `alpha`.

    Drops are sampled for many candidates at once: `kept` of them stay before the next is dropped, so most words need
    no random number.
    """

    def __init__(self, seed: int, alpha: float) -> None:
        self.state = seed & MASK
        self.scale = run_scale(alpha)
        self.kept = self.draw_run()

    def uniform(self) -> float:
        """A number in [0, 1)."""
        self.state = self.state + GAMMA & MASK
        return (mix64(self.state) >> 11) * 2.0**-53

    def draw_run(self) -> int:
        """The number of candidates that stay before the next drop."""
        return int(min(math.log(1 - self.uniform()) * self.scale, NEVER))

    def drops_next(self) -> bool:
        """Whether the next candidate is dropped."""
        if self.kept:
            self.kept -= 1
            return False
        self.kept = self.draw_run()
        return True


def run_scale(alpha: float) -> float:
    """The factor that turns the logarithm of a uniform number into the length of a run without a drop."""
    return max(1 / math.log1p(-alpha), -1e18) if alpha < 1 else 0.0


def bpe_dropout(word: str, ranks: Mapping[str, int], draws: DropStream | None = None) -> list[str]:
    """Merge as BPE does, but drop some candidates at each step; none without `draws`.

    Candidates are tried from best to worst until one stays; the rest could not have been chosen.
    """
    symbols = list(word)
    before, after = list(range(-1, len(word) - 1)), list(range(1, len(word) + 1))
    queue = [(ranks[pair], i, pair) for i in range(len(word) - 1) if (pair := word[i : i + 2]) in ranks]
    heapify(queue)
    dropped: list[tuple[int, int, str]] = []
    while queue:
        candidate = heappop(queue)
        _, left, merged = candidate
        right = after[left]
        if right >= len(symbols) or not symbols[left] or symbols[left] + symbols[right] != merged:
            continue  # one of the two has since been merged with another
        if draws is not None and draws.drops_next():
            dropped.append(candidate)
            continue
        for candidate in dropped:
            heappush(queue, candidate)
        dropped.clear()
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


def sample_path(word: str, lattice: Lattice, draws: DropStream) -> list[str]:
    """Sample one segmentation from the lattice, from its end to its start."""
    tokens = []
    end = len(word)
    while end:
        starts, sums = lattice[end]
        start = starts[min(bisect(sums, draws.uniform() * sums[-1]), len(starts) - 1)]
        tokens.append(word[start:end])
        end = start
    return tokens[::-1]
