"""The response of /v1/attention: words, tokens and the weights between them."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.serve.schema import AttentionResponse, AttentionSide, AttentionWord
from dragoman.text.word_groups import Side
from dragoman.translation.result import Translation


def attention_response(model: str, source: str, translation: Translation) -> AttentionResponse:
    """Both sides in words and tokens, and the weights between the tokens."""
    weights = translation.attention
    return AttentionResponse(
        model=model,
        source=locate_words(source, translation.source_tokens),
        target=locate_words(translation.text, translation.tokens),
        weights=[] if weights is None else [[round(float(weight), 4) for weight in row] for row in weights],
        alignment=list(translation.alignment or ()),
    )


def locate_words(text: str, tokens: Sequence[str]) -> AttentionSide:
    """The visible words of a text with their offsets, searched from left to right.

    A word that the tokenizer writes differently from the text has no offsets; the words after it still have theirs.
    """
    words, cursor = [], 0
    for word in (word for word in Side.from_tokens(tokens).words if word.visible):
        start = text.find(word.text, cursor) if word.text else -1
        if start >= 0:
            cursor = start + len(word.text)
        words.append(
            AttentionWord(
                text=word.text,
                start=start if start >= 0 else None,
                end=cursor if start >= 0 else None,
                tokens=list(word.tokens),
            )
        )
    return AttentionSide(text=text, tokens=list(tokens), words=words)
