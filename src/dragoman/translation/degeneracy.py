"""Signs of degenerate translations: loops, copies of the source, unlikely lengths, missing letters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from dragoman.arrays import IntArray, concatenate
from dragoman.text.line_lengths import LineLengths

LONGEST_PERIOD: Final = 8  # tokens of a sequence that is repeated
MIN_LOOP: Final = 8  # tokens of a loop
MIN_REPEATS: Final = 4
MIN_COMPARED_TOKENS: Final = 8  # shorter texts vary too much in length to compare
MIN_COPIED_WORDS: Final = 4  # short texts such as names and numbers are often copied correctly
RATIO_MARGIN: Final = 1.5  # beyond the usual ratios of target to source tokens
DEFAULT_RATIO: Final = (0.3, 3.0)  # for a model without recorded ratios
LETTER: Final = re.compile(r"[^\W\d_]")


def longest_loop(tokens: Sequence[int]) -> int:
    """Length of the longest run of tokens that repeats a sequence four times or more, or 0."""
    found = 0
    for period in range(1, LONGEST_PERIOD + 1):
        run = longest = 0
        for one, other in zip(tokens, tokens[period:], strict=False):
            run = run + 1 if one == other else 0
            if run > longest:
                longest = run
        if longest + period >= max(MIN_LOOP, MIN_REPEATS * period):
            found = max(found, longest + period)
    return found


def looping_rows(ids: IntArray, lengths: IntArray) -> set[int]:
    """The indices of the rows that have a loop, found for all at once; the rows follow each other in `ids`."""
    row_of = np.repeat(np.arange(len(lengths)), lengths)
    found: set[int] = set()
    for period in range(1, LONGEST_PERIOD + 1):
        repeats = np.flatnonzero(ids[period:] == ids[:-period])
        repeats = repeats[row_of[repeats] == row_of[repeats + period]]
        more = max(MIN_LOOP, MIN_REPEATS * period) - period - 1  # repeats that must follow the first without a gap
        found.update(row_of[repeats[:-more][repeats[more:] - repeats[:-more] == more]].tolist())
    return found


def repetitive_rows(ids: IntArray, lengths: IntArray, sources: Sequence[Sequence[int]]) -> set[int]:
    """The indices of the rows that have a longer loop than their source."""
    looping = sorted(looping_rows(ids, lengths))
    also = looping_rows(*concatenate([sources[i] for i in looping]))
    ends = np.cumsum(lengths)

    def is_longer(i: int) -> bool:
        return longest_loop(ids[ends[i] - lengths[i] : ends[i]].tolist()) > longest_loop(sources[i])

    return {i for number, i in enumerate(looping) if number not in also or is_longer(i)}


def is_copy(source: Sequence[str], target: Sequence[str], text: str) -> bool:
    """Whether a translation is a copy of the source; False for a few words, because names are copied correctly."""
    if "".join(source) != "".join(target):
        return False
    return sum(map(has_letters, text.split())) >= MIN_COPIED_WORDS


def compare_lengths(n_source: IntArray, n_target: IntArray, lengths: LineLengths | None) -> tuple[IntArray, IntArray]:
    """The translations that are too short and too long for their source, by the ratios of the training pairs."""
    compared = np.maximum(n_source, n_target) >= MIN_COMPARED_TOKENS
    low, high = DEFAULT_RATIO if lengths is None else lengths.ratio
    ratio = (n_target + 1) / (n_source + 1)
    return compared & (ratio * RATIO_MARGIN < low), compared & (ratio > high * RATIO_MARGIN)


def has_letters(text: str) -> bool:
    """Whether a text has letters."""
    return LETTER.search(text) is not None
