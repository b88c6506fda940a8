"""From attention between pieces to an alignment between words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from dragoman.text.token_table import BYTE_PIECES, written_by
from dragoman.text.words import MARK, SPACELESS

Links = list[tuple[int, int]]
SILENT: Final = tuple(piece for byte, piece in enumerate(BYTE_PIECES) if not written_by(byte))
UNSEEN: Final = frozenset(["", "<0x20>", "<pad>", "<s>", "</s>", *SILENT])  # what writes no letter


def align(attention_TS: Any, source: Sequence[str], target: Sequence[str]) -> Links:
    """Pairs (source word, target word), counted from 0, by the rule of `link`.

    `attention_TS [T, S]` has a row for each target piece and a column for each source piece; one column more is the
    source's end mark.
    """
    return link(attention_TS, seen_words(source), seen_words(target))


def link(
    attention_TS: Any, from_words: Sequence[int], to_words: Sequence[int], by: Literal["piece", "word"] = "piece"
) -> Links:
    """Link each target piece, or each target word, to where it looked most; nowhere if that is the end mark.

    Between words, weights are summed over the pieces of a source word and averaged over those of a target word. A
    piece whose word is -1 belongs to none.
    """
    if max(from_words, default=-1) < 0 or max(to_words, default=-1) < 0:
        return []
    import numpy as np  # here, because plain translating does without

    weights = np.asarray(attention_TS, dtype=np.float64)
    places = list(from_words) + [-1] * (weights.shape[1] - len(from_words))
    if by == "word":
        columns = sorted(set(places))
        weights = np.stack([weights[:, [p == c for p in places]].sum(1) for c in columns], axis=1)
        rows = sorted({word for word in to_words if word >= 0})
        weights = np.stack([weights[[w == r for w in to_words]].mean(0) for r in rows])
        places, to_words = columns, rows
    pairs = zip((places[best] for best in weights.argmax(1)), to_words, strict=True)
    return sorted({(source, target) for source, target in pairs if source >= 0 and target >= 0})


def word_numbers(pieces: Sequence[str]) -> list[int]:
    """For each piece the number of its word; in scripts that write no spaces, each piece is a word."""
    numbers, number, before = [], -1, ""
    for piece in pieces:
        if number < 0 or piece.startswith(MARK) or (SPACELESS.match(piece) and before != MARK):
            number += 1
        numbers.append(number)
        before = piece
    return numbers


def seen_words(pieces: Sequence[str]) -> list[int]:
    """`word_numbers`, counting those words alone that a reader sees; a piece of another, as a lone ▁, has -1."""
    numbers = word_numbers(pieces)
    seen = {number for number, piece in zip(numbers, pieces, strict=True) if piece.strip(MARK) not in UNSEEN}
    places = {number: place for place, number in enumerate(sorted(seen))}
    return [places.get(number, -1) for number in numbers]


def marks_last(weights_TS: Any, lead: int) -> Any:
    """Weights `[T, S + 1]` with the columns of the first `lead` pieces behind the end mark's: no word is theirs."""
    if not lead:
        return weights_TS
    import numpy as np

    return np.roll(weights_TS, -lead, axis=1)
