"""From attention between pieces to an alignment between words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dragoman.text.words import MARK, SPACELESS


def align(attention_TS: Any, source: Sequence[str], target: Sequence[str]) -> list[tuple[int, int]]:
    """Pairs (source word, target word): each target piece points at the source piece that it looked at most.

    `attention_TS [T, S]` has a row for each target piece and a column for each source piece; words are counted from 0.
    """
    if not source or not target:
        return []
    from_words, to_words = word_numbers(source), word_numbers(target)
    pointed = [max(range(len(source)), key=row.__getitem__) for row in attention_TS.tolist()]
    return sorted({(from_words[s], to_words[t]) for t, s in enumerate(pointed)})


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """For each piece the number of its word; in scripts that write no spaces, each piece is a word."""
    numbers, number, before = [], -1, ""
    for piece in pieces:
        if number < 0 or piece.startswith(MARK) or (SPACELESS.match(piece) and before != MARK):
            number += 1
        numbers.append(number)
        before = piece
    return numbers
