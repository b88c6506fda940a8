"""Sentences in capitals: the model reads them in lower case, which it knows, and their translation gets capitals."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final
from unicodedata import category

from dragoman.translation.result import Translation

LONG: Final = 5  # letters of a word that is longer than most acronyms
LONG_WORD: Final = re.compile(rf"[^\W\d_]{{{LONG},}}")
MANY_WORDS: Final = 4
WORD: Final = re.compile(r"(?<![^\W\d_])[^\W\d_]++(?!\d)")  # but not COVID19, and not the X1 of a mask
FIRST_LETTER: Final = re.compile(r"\A[\W\d_]*(?<!\d)[^\W\d_]")  # not that of 1st
TWO_CAPITALS: Final = re.compile("[A-ZÀ-Þ\u0100-\U0010ffff](?=[A-ZÀ-Þ\u0100-\U0010ffff])")  # or what is far from ASCII


def may_have_capitals(text: str) -> bool:
    """Whether a sentence of a text may be in capitals; most lines take a microsecond."""
    if TWO_CAPITALS.search(text) is None:
        return False
    sizes = [len(word) for word in text.split() if word.isupper()]
    return len(sizes) >= MANY_WORDS or max(sizes, default=0) >= LONG


def is_in_capitals(text: str) -> bool:
    """Whether all letters of a text are capitals, and more than acronyms."""
    if not text.isupper() or "Lo" in map(category, text):  # letters of a script without capitals
        return False
    return LONG_WORD.search(text) is not None or len(WORD.findall(text)) >= MANY_WORDS


def without_capitals(text: str) -> str:
    """A text in capitals as it would be written otherwise; names lose their capitals too."""
    words = WORD.sub(lambda word: word[0] if word[0] == "I" else word[0].lower(), text)
    return FIRST_LETTER.sub(lambda first: first[0].upper(), words)


def with_capitals(translation: Translation) -> Translation:
    """A translation of a text that had capitals."""
    tokens, sources = (
        tuple(token if token.startswith("<0x") else token.upper() for token in side)
        for side in (translation.tokens, translation.source_tokens)
    )
    return replace(translation, text=translation.text.upper(), tokens=tokens, source_tokens=sources)
