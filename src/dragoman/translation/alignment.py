"""From attention between tokens to an alignment between words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal

from dragoman.text.token_table import BYTE_TOKENS, written_by
from dragoman.text.words import MARK, SPACELESS

Links = list[tuple[int, int]]
SILENT: Final = tuple(token for byte, token in enumerate(BYTE_TOKENS) if not written_by(byte))
UNSEEN: Final = frozenset(["", "<0x20>", "<pad>", "<s>", "</s>", *SILENT])  # what writes no letter


def align(attention_TS: Any, source: Sequence[str], target: Sequence[str]) -> Links:
    """Pairs (source word, target word), counted from 0, by the rule of `link`.

    `attention_TS [T, S]` has a row for each target token and a column for each source token; one column more is the
    source's end mark.
    """
    return link(attention_TS, seen_words(source), seen_words(target))


def link(
    attention_TS: Any, from_words: Sequence[int], to_words: Sequence[int], by: Literal["token", "word"] = "token"
) -> Links:
    """Link each target token, or each target word, to where it looked most; nowhere if that is the end mark.

    Between words, weights are summed over the tokens of a source word and averaged over those of a target word. A
    token whose word is -1 belongs to none.
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


def word_numbers(tokens: Sequence[str]) -> list[int]:
    """For each token the number of its word; in scripts that write no spaces, each token is a word."""
    numbers, number, before = [], -1, ""
    for token in tokens:
        if number < 0 or token.startswith(MARK) or (SPACELESS.match(token) and before != MARK):
            number += 1
        numbers.append(number)
        before = token
    return numbers


def seen_words(tokens: Sequence[str]) -> list[int]:
    """`word_numbers`, counting those words alone that a reader sees; a token of another, as a lone ▁, has -1."""
    numbers = word_numbers(tokens)
    seen = {number for number, token in zip(numbers, tokens, strict=True) if token.strip(MARK) not in UNSEEN}
    places = {number: place for place, number in enumerate(sorted(seen))}
    return [places.get(number, -1) for number in numbers]


def marks_last(weights_TS: Any, lead: int) -> Any:
    """Weights `[T, S + 1]` with the columns of the first `lead` tokens behind the end mark's: no word is theirs."""
    if not lead:
        return weights_TS
    import numpy as np

    return np.roll(weights_TS, -lead, axis=1)
