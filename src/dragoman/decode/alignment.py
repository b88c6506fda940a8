"""From attention between pieces to an alignment between words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from dragoman.text.words import MARK, SPACELESS

Links = list[tuple[int, int]]


def align(attention_TS: Any, source: Sequence[str], target: Sequence[str]) -> Links:
    """Pairs (source word, target word), counted from 0, by the rule of `link`.

    `attention_TS [T, S]` has a row for each target piece and a column for each source piece; one column more is the
    source's end mark.
    """
    return link(attention_TS, word_numbers(source), word_numbers(target))


def link(
    attention_TS: Any, from_words: Sequence[int], to_words: Sequence[int], by: Literal["piece", "word"] = "piece"
) -> Links:
    """Link each target piece, or each target word, to where it looked most; nowhere if that is the end mark.

    Between words, weights are summed over the pieces of a source word and averaged over those of a target word.
    """
    if not len(from_words) or not len(to_words):
        return []
    import numpy as np  # here, because plain translating does without

    weights = np.asarray(attention_TS, dtype=np.float64)
    places = list(from_words) + [-1] * (weights.shape[1] - len(from_words))
    if by == "word":
        columns = sorted(set(places))
        weights = np.stack([weights[:, [p == c for p in places]].sum(1) for c in columns], axis=1)
        rows = sorted(set(to_words))
        weights = np.stack([weights[[w == r for w in to_words]].mean(0) for r in rows])
        places, to_words = columns, rows
    pairs = zip((places[best] for best in weights.argmax(1)), to_words, strict=True)
    return sorted({(source, target) for source, target in pairs if source >= 0})


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """For each piece the number of its word; in scripts that write no spaces, each piece is a word."""
    numbers, number, before = [], -1, ""
    for piece in pieces:
        if number < 0 or piece.startswith(MARK) or (SPACELESS.match(piece) and before != MARK):
            number += 1
        numbers.append(number)
        before = piece
    return numbers
