"""How imported models split text into tokens and join them, as in the toolkits that they come from."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Container, Sequence
from typing import Any, Final, Protocol

from dragoman.errors import TextError
from dragoman.text.imported.subword_nmt import SEPARATOR, SubwordCodes
from dragoman.text.normalization import MARK
from dragoman.text.sentencepiece import load_processor, token_names
from dragoman.text.special_tokens import UNK
from dragoman.text.token_table import SPECIAL_TOKENS
from dragoman.values import render_value


class SubwordSegmenter(Protocol):
    """Text to tokens by name, and back."""

    def split_many(self, texts: Sequence[str], threads: int) -> list[list[str]]:
        """The tokens of each text."""

    def join(self, tokens: list[str]) -> str:
        """The text of tokens."""

    def to_display(self, tokens: list[str]) -> list[str]:
        """The tokens in readable form, with ▁ where a word begins."""

    def from_display(self, displayed: Sequence[str]) -> list[str]:
        """The inverse of `to_display`."""


class SentencePieceSegmenter:
    """A sentencepiece model with its own normalization."""

    def __init__(self, model: bytes) -> None:
        self.processor: Any = load_processor(model)
        token_names(self.processor)  # rejects a model that could not split a text

    def split_many(self, texts: Sequence[str], threads: int) -> list[list[str]]:
        """Encode with the library; unknown characters are kept."""
        rows: list[list[str]] = self.processor.encode(list(texts), out_type=str, num_threads=threads)
        return rows

    def join(self, tokens: list[str]) -> str:
        """Decode with the library, except for unknown tokens, for which it would write its own symbol."""
        text: str = "".join(tokens) if UNKNOWN_TOKEN in tokens else self.processor.decode_pieces(tokens)
        return text.replace(MARK, " ").strip()

    def to_display(self, tokens: list[str]) -> list[str]:
        """Return the tokens unchanged."""
        return tokens

    def from_display(self, displayed: Sequence[str]) -> list[str]:
        """Return the tokens unchanged."""
        return [*displayed]


class WhitespaceSegmenter:
    """Words between spaces, split by subword-nmt codes if given; `@@` marks a token that does not end its word."""

    def __init__(self, codes: str | None = None, vocabulary: Container[str] | None = None) -> None:
        self.codes = None if codes is None else SubwordCodes(codes, vocabulary)

    def split_many(self, texts: Sequence[str], threads: int) -> list[list[str]]:
        """Encode word by word; the tokens of words are cached."""
        if self.codes is None:
            return [text.split() for text in texts]
        return [[token for word in text.split() for token in self.codes.split(word)] for text in texts]

    def join(self, tokens: list[str]) -> str:
        """Join with spaces, except within a word."""
        return (" ".join(tokens) + " ").replace(SEPARATOR + " ", "").strip()

    def to_display(self, tokens: list[str]) -> list[str]:
        """Mark tokens that begin a word, instead of tokens that continue."""
        begins = [True, *(not token.endswith(SEPARATOR) for token in tokens[:-1])]
        return [
            (MARK if first else "") + token.removesuffix(SEPARATOR)
            for token, first in zip(tokens, begins, strict=False)
        ]

    def from_display(self, displayed: Sequence[str]) -> list[str]:
        """Mark tokens followed by one that does not begin a word."""
        goes_on = [*(not token.startswith(MARK) for token in displayed[1:]), False]
        return [
            token.removeprefix(MARK) + (SEPARATOR if more else "")
            for token, more in zip(displayed, goes_on, strict=False)  # without tokens, there is no last one
        ]


UNKNOWN_TOKEN: Final = SPECIAL_TOKENS[UNK]
SUBWORD_NMT_RESTRICTED: Final = "subword-nmt, known"
SEGMENTERS: Final = ("sentencepiece", "subword-nmt", SUBWORD_NMT_RESTRICTED, "spaces")


def load_segmenter(cut: object, model: object, tokens: Container[str] = ()) -> SubwordSegmenter:
    """The segmenter of a stored tokenizer; `model` is text, in Base64 for sentencepiece.

    "subword-nmt, known" produces only tokens in `tokens`, as far as merges can be undone.
    """
    if cut == "spaces":
        return WhitespaceSegmenter()
    if cut not in SEGMENTERS or not isinstance(model, str):
        raise TextError(
            f"unknown cut={render_value(cut, 40)}; use one of: {', '.join(SEGMENTERS)}", code="unknown_choice"
        )
    if cut in ("subword-nmt", SUBWORD_NMT_RESTRICTED):
        return WhitespaceSegmenter(model, tokens if cut == SUBWORD_NMT_RESTRICTED else None)
    try:
        content = b64decode(model, validate=True)
    except ValueError as error:
        raise TextError(f"its model is not valid Base64: {error}", code="file_damaged") from None
    return SentencePieceSegmenter(content)


def encode_model(model: bytes) -> str:
    """A sentencepiece model as `load_segmenter` reads it."""
    return b64encode(model).decode()
