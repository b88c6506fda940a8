"""The tokens of a vocabulary, and the bytes that each writes; decoding joins the bytes.

A target language is a token before the source (Johnson et al., 2017). It exists only in the vocabulary: no text is
encoded as it, and it writes nothing. No learned token can have its name, because digits are always single tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import index, itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dragoman.config.sections import LANGUAGE_CODE, MAX_LANGUAGE_CODE
from dragoman.errors import NotATokenizerError, TextError
from dragoman.text.normalization import MARK
from dragoman.text.special_tokens import N_SPECIAL, UNK
from dragoman.values import render_value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dragoman.arrays import IntArray

T = TypeVar("T")


def language_token(code: str) -> str:
    """The name of a language's token: `<2de>`, read as "to German"."""
    return f"<2{code}>"


def is_language_code(code: object) -> bool:
    """Whether a value is valid as a target language: letters and digits, with hyphens between them."""
    return isinstance(code, str) and len(code) <= MAX_LANGUAGE_CODE and re.fullmatch(LANGUAGE_CODE, code) is not None


def check_language_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """The codes of target languages, each valid and named once."""
    for code in codes:
        if not is_language_code(code):
            raise TextError(
                f"{code!r} is not a language code; use letters, digits and hyphens, such as 'de' or 'zh-Hans'",
                code="invalid_language_code",
            )
    if len({*codes}) != len(codes):
        raise TextError(
            f"the target languages {', '.join(codes)} contain a duplicate; list each once", code="duplicate_language"
        )
    return tuple(codes)


def split_language_tokens(ids: IntArray, lengths: IntArray, first: int) -> tuple[IntArray, IntArray, IntArray]:
    """Concatenated sentences without the language token that each may begin with, their lengths, and those tokens.

    Ids from `first` on are languages; -1 stands for a sentence without a language token.
    """
    import numpy as np

    starts, languages = np.cumsum(lengths) - lengths, np.full(len(lengths), -1, np.int64)
    nonempty = np.flatnonzero(lengths)
    languages[nonempty] = ids[starts[nonempty]]
    languages[languages < first] = -1
    return np.delete(ids, starts[languages >= 0]), lengths - (languages >= 0), languages


def add_language_tokens(ids: IntArray, lengths: IntArray, languages: IntArray) -> tuple[IntArray, IntArray]:
    """The inverse of `split_language_tokens`: each sentence after its language token, unless that is -1."""
    import numpy as np

    starts, present = np.cumsum(lengths) - lengths, languages >= 0
    return np.insert(ids, starts[present], languages[present].astype(ids.dtype)), lengths + present


SPECIAL_TOKENS: Final = ("<pad>", "<s>", "</s>", "<unk>")
BYTE_TOKENS: Final = tuple(f"<0x{byte:02X}>" for byte in range(256))
FIRST_LEARNED: Final = N_SPECIAL + len(BYTE_TOKENS)
"""Every vocabulary starts with the special ids and the 256 bytes, followed by the learned tokens."""


def byte_ids(text: str) -> list[int]:
    """Text as byte tokens, for characters without a token."""
    return [N_SPECIAL + byte for byte in text.encode("utf-8")]


def byte_token_output(byte: int) -> bytes:
    """The output of a byte's token.

    Normalized text has no control characters, such as line ends; if a model writes their tokens, the output must still
    be one line of text that training can read.
    """
    return b"" if byte < 0x20 or byte == 0x7F else bytes([byte])


MARK_IDS: Final = byte_ids(MARK)


class Vocabulary:
    """A vocabulary's token names by id, and ids by name."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.ids = {token: number for number, token in reversed([*enumerate(self.names)])}

    def __len__(self) -> int:
        return len(self.names)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The tokens by name."""
        return [self.names[number] for number in self.check_ids(ids)]

    def tokens_many(self, rows: Sequence[Sequence[int]]) -> list[tuple[str, ...]]:
        """`tokens` for each row, faster."""
        return self.look_up(self.names, rows)

    def look_up(self, values: Sequence[T], rows: Sequence[Sequence[int]]) -> list[tuple[T, ...]]:
        """The values of each row's ids; reject ids outside of the vocabulary."""
        from dragoman.arrays import concatenate

        self.check_array(concatenate(rows)[0])
        # itemgetter is the fastest way to take many items, but takes a single one without its tuple
        return [itemgetter(*row)(values) if len(row) > 1 else tuple([values[i] for i in row]) for row in rows]

    def to_ids(self, tokens: Iterable[str]) -> list[int]:
        """The ids of tokens by name, the inverse of `tokens`."""
        try:
            return [self.ids[token] for token in tokens]
        except KeyError as error:
            raise TextError(
                f"there is no token {error.args[0]!r} in this vocabulary of {len(self)}; give tokens as `dragoman "
                "tokenize` prints them with the same tokenizer, separated by spaces",
                code="unknown_token",
            ) from None

    def check_array(self, ids: IntArray) -> None:
        """Reject ids outside of the vocabulary, faster than `check_ids`."""
        if len(ids) and not 0 <= ids.min() <= ids.max() < len(self):
            self.check_ids(ids)  # the error names it

    def check_ids(self, ids: Iterable[int]) -> list[int]:
        """The ids as a list; reject ids outside of the vocabulary: -1 would silently be the last token."""
        try:
            numbers = [index(number) for number in ids]
        except TypeError:
            raise TextError(
                f"ids must be integers, such as [5, 6, 7]; got {render_value(ids)}", code="wrong_type"
            ) from None
        if numbers and not 0 <= min(numbers) <= max(numbers) < len(self.names):
            wrong = next(number for number in numbers if not 0 <= number < len(self.names))
            raise TextError(
                f"id {wrong} is outside of this vocabulary; its ids are 0 to {len(self.names) - 1}", code="unknown_id"
            )
        return numbers


class TokenTable(Vocabulary):
    """The tokens of a vocabulary by id, as text and as the bytes that they write.

    Tokens of target languages, if any, are the last ones and write nothing.
    """

    def __init__(self, tokens: Sequence[str], targets: Sequence[str] = ()) -> None:
        if tuple(tokens[:FIRST_LEARNED]) != SPECIAL_TOKENS + BYTE_TOKENS:
            raise NotATokenizerError(
                "this vocabulary does not start with <pad>, <s>, </s>, <unk> and the 256 byte tokens; "
                "only tokenizers learned by Dragoman can be used: learn one with `dragoman prepare`"
            )
        if taken := {*map(language_token, targets)}.intersection(tokens):
            raise TextError(
                f"{min(taken)} is already a learned token and cannot be a language token; use another code",
                code="duplicate_token",
            )
        super().__init__([*tokens, *map(language_token, targets)])
        learned = [token.replace(MARK, " ").encode("utf-8") for token in tokens[FIRST_LEARNED:]]
        special = [b""] * N_SPECIAL
        special[UNK] = "\N{REPLACEMENT CHARACTER}".encode()
        self.token_bytes = special + [byte_token_output(byte) for byte in range(256)] + learned + [b""] * len(targets)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids; bytes that are not UTF-8, which a model may produce, become U+FFFD."""
        return join_bytes([self.token_bytes[number] for number in self.check_ids(ids)])

    def decode_many(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """`decode` for each row, faster."""
        return [join_bytes(row) for row in self.look_up(self.token_bytes, rows)]

    def decode_rows(self, ids: IntArray, lengths: IntArray) -> list[str]:
        """`decode` for rows that follow each other in one array: the bytes of all rows are joined at once."""
        import numpy as np

        from dragoman.arrays import split_rows

        self.check_array(ids)
        lines = b"".join(self.lines[np.insert(ids, np.cumsum(lengths), len(self))].tolist())
        texts = lines.decode("utf-8", errors="replace").split("\n")
        if len(texts) != len(lengths) + 1:  # a learned token has a line feed
            return self.decode_many(split_rows(ids, lengths))
        return [text.removeprefix(" ") for text in texts[:-1]]

    @cached_property
    def lines(self) -> NDArray[Any]:
        """The bytes that each token writes, and the end of a line."""
        import numpy as np

        return np.array([*self.token_bytes, b"\n"], object)


def join_bytes(parts: Iterable[bytes]) -> str:
    """The text that tokens write, without the space of the first word."""
    return b"".join(parts).decode("utf-8", errors="replace").removeprefix(" ")
