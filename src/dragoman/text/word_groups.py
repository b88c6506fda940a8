"""Group the tokens of a sentence into words."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Final, Literal

from dragoman.text.normalization import MARK, SPACELESS
from dragoman.text.token_table import BYTE_TOKENS, byte_token_output
from dragoman.text.tokenizer import Tokenizer

BYTE_RUN: Final = re.compile("(?:<0x[0-9A-F]{2}>)+")  # characters that the vocabulary lacks
SILENT: Final = tuple(token for byte, token in enumerate(BYTE_TOKENS) if not byte_token_output(byte))
INVISIBLE: Final = frozenset(["", "<0x20>", "<pad>", "<s>", "</s>", *SILENT])  # tokens without a visible character


@dataclass(frozen=True)
class Word:
    """A word: its text and the positions of its tokens.

    A word without a visible character, such as a lone ▁, is not `visible`. Special and language tokens are `special`.
    """

    text: str
    tokens: tuple[int, ...]
    visible: bool = True
    special: bool = False

    @property
    def label(self) -> str:
        """The label in pictures."""
        return self.text or "␣"


@dataclass(frozen=True)
class Side:
    """The source or the target of a sentence pair: tokens, and the words that they form."""

    tokens: tuple[str, ...]
    words: tuple[Word, ...]

    @classmethod
    def from_tokens(
        cls,
        tokens: Sequence[str],
        decode: Callable[[Sequence[int]], str] | None = None,
        before: str = "",
        after: str = "",
    ) -> Side:
        """Group tokens into words, with special tokens before or after them.

        `decode` returns the text of the tokens at some positions, for tokenizers whose token names are not their text.
        """
        shift = 1 if before else 0
        words = [
            Word(
                (spell([tokens[i] for i in group]) if decode is None else decode(group)).strip(),
                tuple(i + shift for i in group),
                visible=any(is_visible(tokens[i]) for i in group),
            )
            for group in group_tokens(tokens)
        ]
        first = [Word(before, (0,), special=True)] if before else []
        last = [Word(after, (len(tokens) + shift,), special=True)] if after else []
        return cls((*[before][:shift], *tokens, *([after] if after else [])), (*first, *words, *last))

    @classmethod
    def from_ids(cls, tokenizer: Tokenizer, ids: Sequence[int], before: str = "", after: str = "") -> Side:
        """Group token ids into words, with special tokens before or after them."""
        return cls.from_tokens(
            tokenizer.tokens(ids), lambda group: tokenizer.decode([ids[i] for i in group]), before, after
        )

    @property
    def groups(self) -> list[tuple[int, ...]]:
        """The token positions of each word."""
        return [word.tokens for word in self.words]

    def merge_tokens(self) -> Side:
        """The same words, with one token each."""
        words = tuple(Word(w.text, (i,), w.visible, w.special) for i, w in enumerate(self.words))
        return Side(tuple(word.label for word in words), words)


def group_tokens(tokens: Sequence[str]) -> list[list[int]]:
    """The token positions of each word; in scripts without spaces, each token is a word."""
    groups: list[list[int]] = []
    for i, token in enumerate(tokens):
        kind = token_kind(token)[0]
        if not groups or kind == "space" or (kind == "spaceless" and tokens[i - 1] != MARK):
            groups.append([i])
        else:
            groups[-1].append(i)
    return groups


@lru_cache(maxsize=1 << 16)
def token_kind(token: str) -> tuple[Literal["space", "spaceless", "inside"], bool]:
    """Whether a token has a space before it, is of a script without spaces, or is inside a word; and is visible."""
    if token.startswith(MARK):
        return "space", is_visible(token)
    return "spaceless" if SPACELESS.match(token) else "inside", is_visible(token)


@lru_cache(maxsize=1 << 16)
def word_step(token: str) -> int:
    """1 for a visible token that begins a word, 0 for one inside a word, 2 for all others."""
    kind, visible = token_kind(token)
    return 2 if kind == "spaceless" or not visible else int(kind == "space")


def visible_word_ids(tokens: Sequence[str]) -> list[int]:
    """The index of each token's word among the visible words; -1 for tokens of invisible words."""
    steps = [*map(word_step, tokens)]
    if steps and 2 not in steps:  # nearly all sentences of scripts with spaces
        steps[0] = 0
        return [*accumulate(steps)]
    ids, count, first, seen, before = list[int](), -1, 0, False, ""
    for i, token in enumerate(tokens):
        kind, visible = token_kind(token)
        if i == 0 or kind == "space" or (kind == "spaceless" and before != MARK):
            first, seen = i, False
        if visible and not seen:
            seen, count = True, count + 1
            ids[first:] = [count] * (i - first)
        ids.append(count if seen else -1)
        before = token
    return ids


def count_visible_words(tokens: Sequence[str]) -> int:
    """The number of visible words."""
    return max(visible_word_ids(tokens), default=-1) + 1


def is_visible(token: str) -> bool:
    """Whether a token writes a visible character."""
    return token.strip(MARK) not in INVISIBLE


@lru_cache(maxsize=1 << 16)
def is_punctuation(token: str) -> bool:
    """Whether a token has no letter and no digit; a single byte of a character counts as a letter."""
    return not any(character.isalnum() for character in token)


def spell(tokens: Sequence[str]) -> str:
    """The text that token names write; byte tokens are decoded."""
    return BYTE_RUN.sub(_decode_bytes, "".join(tokens)).replace(MARK, " ")


def _decode_bytes(run: re.Match[str]) -> str:
    values = (byte_token_output(int(byte, 16)) for byte in re.findall("<0x(..)>", run[0]))
    return b"".join(values).decode("utf-8", "replace")
