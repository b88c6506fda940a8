"""The one normalizer: whatever becomes ids goes through `normalize` first, and nothing else changes a text.

1. Invisible leftovers are dropped: control characters that are no white space (NUL, DEL, C1, ...), the byte order mark
   U+FEFF and the soft hyphen U+00AD. Joiners and direction marks stay, because emoji, Persian and Hebrew need them.
2. Unicode NFC: a letter and its accents become one code point where there is one. Not NFKC, which would rewrite what a
   translator has to be able to say (m², ½, ，).
3. Every run of white space, as `str.split` sees it (no-break and ideographic spaces and U+2028 included), becomes one
   space, and none is left at either end.

The order makes it idempotent: dropping first, because NFC must see the neighbors that remain.
"""

from __future__ import annotations

import re
from typing import Final
from unicodedata import is_normalized
from unicodedata import normalize as unicode_normalize

from dragoman.errors import TextError

VERSION: Final = 1
"""Saved with every tokenizer; grows when the same text would come out differently."""

DROPPED: Final = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\ufeff]+")


def normalize(text: str) -> str:
    """The text as tokenizers read and write it; nearly free for text that is already normalized."""
    if not isinstance(text, str):
        raise TextError(f"a text must be a str; got {type(text).__name__} {text!r:.60}", code="wrong_type")
    if (
        text.isprintable()  # rules out control characters, every white space but " ", and lone surrogates
        and "  " not in text
        and text.strip() is text
        and (text.isascii() or is_normalized("NFC", text))
    ):
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextError(
            f"the text has a lone surrogate, U+{ord(text[error.start]):04X}, at character {error.start}: half of a "
            "UTF-16 pair is not Unicode text; decode the file as UTF-8 (or, if it is UTF-16, as UTF-16)",
            code="invalid_character",
        ) from None
    return " ".join(unicode_normalize("NFC", DROPPED.sub("", text)).split())
