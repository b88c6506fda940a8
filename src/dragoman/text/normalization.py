"""Normalization and splitting into words, before tokenization.

All text passes through `normalize` before it becomes ids, and nothing else changes it.

1. Invisible characters are removed: control characters that are not white space (NUL, DEL, C1, ...), the byte order
mark U+FEFF and the soft hyphen U+00AD. Joiners and direction marks stay: emoji, Persian and Hebrew need them.
2. Unicode NFC: a letter and its accents become one code point if one exists. Not NFKC, which would rewrite characters
that a translation may need (m², ½, ，).
3. Every run of white space, as in `str.split` (including no-break and ideographic spaces and U+2028), becomes one
space; leading and trailing white space is removed.

The order makes it idempotent: characters are removed first, so that NFC sees the remaining neighbors.

A word includes the space before it: "▁cat" is one token, and decoding is plain joining. The first word of a text gets a
space too, so a word is the same token everywhere. Scripts without spaces (Chinese, Japanese, Thai) get none: a space
before them is a separate token.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Final

from dragoman.errors import TextError
from dragoman.values import render_value

VERSION: Final = 1
"""Saved with every tokenizer; incremented when the result of normalization changes."""

DROPPED: Final = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\ufeff]+")


def normalize(text: str) -> str:
    """Normalize a text for tokenizers; nearly free if it is already normalized."""
    if not isinstance(text, str):
        raise TextError(f"a text must be a str; got {type(text).__name__} {render_value(text)}", code="wrong_type")
    if (
        text.isprintable()  # excludes control characters, all white space except " ", and lone surrogates
        and "  " not in text
        and text.strip() is text
        and (text.isascii() or unicodedata.is_normalized("NFC", text))
    ):
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextError(
            f"the text has a lone surrogate, U+{ord(text[error.start]):04X}, at character {error.start}: half of a "
            "UTF-16 pair is not valid Unicode; decode the file as UTF-8 (or as UTF-16, if that is its encoding)",
            code="invalid_character",
        ) from None
    return " ".join(unicodedata.normalize("NFC", DROPPED.sub("", text)).split())


MARK: Final = "▁"
"""The symbol of a space inside a token; a U+2581 in the text itself is encoded as three byte tokens."""

SPACELESS: Final = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan, Burmese, Khmer
    "\u2e80-\u312f\u3190-\ua4cf\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"  # Han, kana, their punctuation and wide forms
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff]"  # rarer kana and Han
)
CACHED_WORDS: Final = 1 << 17
CACHED_CHARACTERS: Final = 16 * CACHED_WORDS


def mark(text: str) -> str:
    """A normalized text with a space before its first word."""
    if "" < text < "\u0e00":  # below the first spaceless script: fast path for the usual case
        return " " + text
    return text if not text or SPACELESS.match(text) else " " + text


def split_word(word: str, alphabet: frozenset[str]) -> Iterator[str]:
    """The parts of a word to learn from: with its space, and split at characters that byte tokens encode."""
    marked = mark(word)
    if alphabet.issuperset(marked):
        yield marked
        return
    for known, run in groupby(marked, alphabet.__contains__):
        if known:
            yield "".join(run)


@lru_cache(maxsize=1 << 16)
def character_class(character: str) -> str:
    """Letters, letters of spaceless scripts, digits and the rest: no WordPiece token spans two classes."""
    category = unicodedata.category(character)
    if category[0] in "LM":
        return "spaceless" if SPACELESS.match(character) else "letter"
    return "digit" if category == "Nd" else "other"


def segments(chunk: str) -> Iterator[str]:
    """Split a chunk where the class changes; a space stays with what follows, digits and their space are single."""
    space = chunk[:1] if chunk[:1] == " " else ""
    for kind, run in groupby(chunk[len(space) :], character_class):
        if kind == "digit":
            yield from ([space] if space else [])
            yield from run
        else:
            yield space + "".join(run)
        space = ""
    if space:
        yield space


class WordCache:
    """A cache of the ids of words: a lookup is faster than any library's encoding."""

    def __init__(self) -> None:
        self.known: dict[str, tuple[int, ...]] = {}
        self.characters = 0  # total characters: words from a server's clients may have any length

    def encode(self, texts: Iterable[str], encode_words: Callable[[list[str]], Iterable[list[int]]]) -> list[list[int]]:
        """The ids of normalized texts; new words are encoded together, because no token spans a space."""
        if len(self.known) > CACHED_WORDS or self.characters > CACHED_CHARACTERS:
            self.known, self.characters = {}, 0  # replaced, not cleared: another thread may be reading the old one
        known = self.known
        ids_of = known.__getitem__
        rows: list[list[int]] = []
        incomplete: dict[int, list[str]] = {}  # the words of rows with new words
        for number, text in enumerate(texts):
            words = text.split(" ")
            try:
                rows.append([*chain.from_iterable(map(ids_of, words))])
            except KeyError:
                rows.append([])
                incomplete[number] = words
        if incomplete:
            new = list(set(chain.from_iterable(incomplete.values())).difference(known))
            known.update(zip(new, map(tuple, encode_words(new)), strict=True))
            self.characters += sum(map(len, new))
            for number, words in incomplete.items():
                rows[number] = [*chain.from_iterable(map(ids_of, words))]
        return rows


def has_words(texts: Sequence[str]) -> bool:
    """Whether a cache of words helps, judged by the spaces in a few texts; affects only the speed."""
    sample = texts[:: len(texts) // 64 + 1]
    return 2 * sum(SPACELESS.search(text) is not None for text in sample) < len(sample)
