"""What a line's tokens looked at, as the page draws it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from dragoman.serve.schema import AttentionResponse, Side, Word
from dragoman.text.token_table import written_by
from dragoman.text.words import MARK
from dragoman.translation.alignment import seen_words
from dragoman.translation.result import Translation

BYTES: Final = re.compile("(?:<0x[0-9A-F]{2}>)+")  # of characters that the vocabulary does not have


def looked(model: str, source: str, translation: Translation) -> AttentionResponse:
    """The two sides in words and tokens, and the weights between the tokens."""
    weights = translation.attention
    return AttentionResponse(
        model=model,
        source=side(source, translation.source_tokens),
        target=side(translation.text, translation.tokens),
        weights=[] if weights is None else [[round(float(weight), 4) for weight in row] for row in weights],
        alignment=list(translation.alignment or ()),
    )


def side(text: str, tokens: Sequence[str]) -> Side:
    """The words of a text with their places, looked for from left to right.

    A word that the tokenizer writes in another way than the text does has no place; those after it still have theirs.
    """
    groups: dict[int, list[int]] = {}
    for place, number in enumerate(seen_words(tokens)):
        if number >= 0:
            groups.setdefault(number, []).append(place)
    words, cursor = [], 0
    for group in groups.values():
        label = BYTES.sub(written, "".join(tokens[i] for i in group)).replace(MARK, " ").strip()
        start = text.find(label, cursor) if label else -1
        if start >= 0:
            cursor = start + len(label)
        words.append(
            Word(text=label, start=start if start >= 0 else None, end=cursor if start >= 0 else None, tokens=group)
        )
    return Side(text=text, tokens=list(tokens), words=words)


def written(tokens: re.Match[str]) -> str:
    """The characters that tokens of single bytes write."""
    each = (written_by(int(number, 16)) for number in re.findall("<0x(..)>", tokens[0]))
    return b"".join(each).decode("utf-8", "replace")
