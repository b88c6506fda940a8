"""How imported models cut text into tokens and join them again: as the toolkits that they come from do."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Container, Sequence
from typing import Any, Final, Protocol

from dragoman.errors import TextError
from dragoman.text.imported.subword_nmt import SEPARATOR, SubwordCodes
from dragoman.text.sentencepiece import open_model
from dragoman.text.special_tokens import UNK
from dragoman.text.token_table import SPECIAL_TOKENS
from dragoman.text.words import MARK


class Cutting(Protocol):
    """Text to tokens by name, and back."""

    def cut_many(self, texts: Sequence[str], threads: int) -> list[list[str]]:
        """The tokens of each text."""

    def joined(self, tokens: list[str]) -> str:
        """The text that tokens write."""

    def shown(self, tokens: list[str]) -> list[str]:
        """The tokens as a person reads them, ▁ where a word begins."""

    def stored(self, shown: Sequence[str]) -> list[str]:
        """The inverse of `shown`."""


class BySentencePiece:
    """A sentencepiece model with its own normalization, whatever that is."""

    def __init__(self, model: bytes) -> None:
        self.processor: Any = open_model(model)

    def cut_many(self, texts: Sequence[str], threads: int) -> list[list[str]]:
        """By the library; what it does not know comes as it is written."""
        rows: list[list[str]] = self.processor.encode(list(texts), out_type=str, num_threads=threads)
        return rows

    def joined(self, tokens: list[str]) -> str:
        """By the library, which would write its own sign for what is unknown."""
        whole: str = "".join(tokens) if UNKNOWN in tokens else self.processor.decode_pieces(tokens)
        return whole.replace(MARK, " ").strip()

    def shown(self, tokens: list[str]) -> list[str]:
        """As they are."""
        return tokens

    def stored(self, shown: Sequence[str]) -> list[str]:
        """As they are."""
        return [*shown]


class BySpaces:
    """Words between spaces, cut by codes of subword-nmt where there are any; `@@` says that a word goes on."""

    def __init__(self, codes: str | None = None, vocabulary: Container[str] | None = None) -> None:
        self.codes = None if codes is None else SubwordCodes(codes, vocabulary)

    def cut_many(self, texts: Sequence[str], threads: int) -> list[list[str]]:
        """One after the other: words repeat, and their tokens are remembered."""
        if self.codes is None:
            return [text.split() for text in texts]
        return [[token for word in text.split() for token in self.codes.cut(word)] for text in texts]

    def joined(self, tokens: list[str]) -> str:
        """With spaces, except where a word goes on."""
        return (" ".join(tokens) + " ").replace(SEPARATOR + " ", "").strip()

    def shown(self, tokens: list[str]) -> list[str]:
        """A mark where a word begins, instead of one where it goes on."""
        begins = [True, *(not token.endswith(SEPARATOR) for token in tokens[:-1])]
        return [
            (MARK if first else "") + token.removesuffix(SEPARATOR)
            for token, first in zip(tokens, begins, strict=False)
        ]

    def stored(self, shown: Sequence[str]) -> list[str]:
        """A token before one that begins no word goes on."""
        goes_on = [*(not token.startswith(MARK) for token in shown[1:]), False]
        return [
            token.removeprefix(MARK) + (SEPARATOR if more else "") for token, more in zip(shown, goes_on, strict=True)
        ]


UNKNOWN: Final = SPECIAL_TOKENS[UNK]
KNOWN: Final = "subword-nmt, known"
CUTS: Final = ("sentencepiece", "subword-nmt", KNOWN, "spaces")


def cutting(cut: object, model: object, tokens: Container[str] = ()) -> Cutting:
    """What a stored tokenizer says of itself, as an object that cuts; `model` is text, sentencepiece's in base 64.

    "subword-nmt, known" makes no token that is not among `tokens`, as far as merges can be undone.
    """
    if cut == "spaces":
        return BySpaces()
    if cut not in CUTS or not isinstance(model, str):
        raise TextError(f"cut={cut!r:.40} is no way to cut text; there are: {', '.join(CUTS)}", code="unknown_choice")
    if cut in ("subword-nmt", KNOWN):
        return BySpaces(model, tokens if cut == KNOWN else None)
    try:
        return BySentencePiece(b64decode(model, validate=True))
    except ValueError as error:  # a TextError is one too, and has said it
        raise (
            error
            if isinstance(error, TextError)
            else TextError(f"its model is no base 64: {error}", code="file_damaged")
        ) from None


def as_text(model: bytes) -> str:
    """A sentencepiece model as `cutting` reads it."""
    return b64encode(model).decode()
