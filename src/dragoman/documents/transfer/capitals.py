"""Sentences in capitals: the model reads them in lower case, which it knows, and their translation gets capitals."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from dragoman.translation.result import Translation

LONG_WORD: Final = re.compile(r"[^\W\d_]{5,}")  # longer than most acronyms
MANY_WORDS: Final = 4
WORD: Final = re.compile(r"[^\W\d_]+(?!\d)")  # but not the X of a mask


def is_in_capitals(text: str) -> bool:
    """Whether a text has no lower-case letter, and more than acronyms."""
    return text.isupper() and (LONG_WORD.search(text) is not None or len(WORD.findall(text)) >= MANY_WORDS)


def without_capitals(text: str) -> str:
    """A text in capitals as it would be written otherwise; names lose their capitals too."""
    words = WORD.sub(lambda word: word[0] if word[0] == "I" else word[0].lower(), text)
    first = WORD.search(words)
    if first is None:
        return words
    start = first.start()
    return words[:start] + words[start].upper() + words[start + 1 :]


def with_capitals(translation: Translation) -> Translation:
    """A translation of a text that had capitals."""
    tokens, sources = (
        tuple(token if token.startswith("<0x") else token.upper() for token in side)
        for side in (translation.tokens, translation.source_tokens)
    )
    return replace(translation, text=translation.text.upper(), tokens=tokens, source_tokens=sources)
