"""The tokenizer of a model that was trained with another toolkit: its own segmentation, and its own tokens.

Text is normalized as in the model's training, not by our normalizer. Characters outside of the vocabulary become the
unknown token, and `decode(encode(text))` need not be the text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import NotATokenizerError, TextError
from dragoman.files import parse_json
from dragoman.text.imported.segmentation import SentencePieceSegmenter, SubwordSegmenter, load_segmenter
from dragoman.text.normalization import MARK, normalize
from dragoman.text.special_tokens import N_SPECIAL, UNK
from dragoman.text.token_table import SPECIAL_TOKENS, Vocabulary, language_token
from dragoman.text.tokenizer import Tokenizer
from dragoman.values import rename_keys, render_value

if TYPE_CHECKING:
    from dragoman.arrays import IntArray, Uint64Array

KIND: Final = "imported"


class ImportedTokenizer(Tokenizer):
    """The toolkit's tokens by name, each with an id; ids 0 to 3 are the usual special tokens.

    Stored as JSON: `from`, the toolkit; `cut` and `model`, as `load_segmenter` reads them; `unknown`, the text of the
    unknown token; `silent`, ids that write nothing; and `tokens`, in the order of their ids, from 4 on.
    """

    def __init__(self, kind: str, model: bytes, targets: Sequence[str] = ()) -> None:
        about = parse_tokenizer(model)
        super().__init__(kind, model, targets)
        self.unknown: str = about["unknown"]
        tokens: list[str] = about["tokens"]
        self.known = {token: number for number, token in enumerate(tokens, start=N_SPECIAL)}
        self.segmenter: SubwordSegmenter = load_segmenter(about["cut"], about["model"], self.known)
        if len(self.known) != len(tokens):
            raise TextError(
                f"{len(tokens) - len(self.known)} of the imported tokens are duplicates; import the model again",
                code="duplicate_token",
            )
        self.first_target = N_SPECIAL + len(tokens)
        self.names = [*SPECIAL_TOKENS, *tokens, *map(language_token, self.targets)]
        self.silent = {*range(UNK), *about["silent"], *range(self.first_target, len(self.names))}
        self.table = Vocabulary(self.names)
        self.vocabulary_size = len(self.names)

    @cached_property
    def widths(self) -> Sequence[int]:
        """The number of UTF-8 bytes that each id writes, including its space."""
        return [0 if i in self.silent else len(token.encode()) for i, token in enumerate(self.names)]

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without BOS and EOS."""
        return self.encode_many([text])[0]

    @property
    def marks_words(self) -> bool:
        """Whether a token itself marks the beginning of a word, rather than the previous token."""
        return isinstance(self.segmenter, SentencePieceSegmenter)

    def encode_marked(self, marked: str) -> list[int]:
        """The ids of a text without the space before it, if the space is a token."""
        row = self.segmenter.split_many([check_text(marked)], 1)[0]
        if self.marks_words and row and row[0].startswith(MARK) and not marked.startswith(" "):
            bare = row[0].removeprefix(MARK)
            row = row[1:] if not bare else [bare if bare in self.known else row[0], *row[1:]]
        return [self.known.get(token, UNK) for token in row]

    def encode_many(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """`encode` for each text."""
        self.check_batch(texts, threads)
        rows, known = self.segmenter.split_many([check_text(text) for text in texts], threads), self.known
        return [[known.get(token, UNK) for token in row] for row in rows]

    def sample(self, text: str, alpha: float, seed: int) -> list[int]:
        """Supports only alpha 0, which is `encode`."""
        self.check_alpha(alpha)
        return self.encode(text)

    def resample(self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array) -> tuple[IntArray, IntArray]:
        """Supports only alpha 0, which changes nothing."""
        self.check_alpha(alpha)
        return ids, lengths

    resamples_in_threads = True

    def check_alpha(self, alpha: float) -> None:
        """Reject sampling, which imported tokenizers do not support."""
        if alpha != 0:
            raise TextError(
                f"alpha={alpha} is not supported: imported tokenizers cannot sample; use data.sampling=0",
                code="unsupported_sampling",
            )

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the ids, joined as in their toolkit."""
        numbers = self.table.check_ids(ids)
        unknown = [self.unknown] if self.unknown else []
        written = [unknown if i == UNK else [self.names[i]] for i in numbers if i not in self.silent]
        return self.segmenter.join([token for tokens in written for token in tokens])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens as text."""
        numbers = self.table.check_ids(ids)
        displayed = iter(self.segmenter.to_display([self.names[i] for i in numbers if self.is_text(i)]))
        return [next(displayed) if self.is_text(i) else self.names[i] for i in numbers]

    def to_ids(self, tokens: Sequence[str]) -> list[int]:
        """The inverse of `tokens`."""
        special = {*SPECIAL_TOKENS[:UNK], *self.names[self.first_target :]}
        stored = iter(self.segmenter.from_display([token for token in tokens if token not in special]))
        return self.table.to_ids([token if token in special else next(stored) for token in tokens])

    def is_text(self, number: int) -> bool:
        """Whether an id is a text token, known or unknown, rather than a special or language token."""
        return UNK <= number < self.first_target


def check_text(text: str) -> str:
    """The text unchanged, if it is valid."""
    try:
        text.encode("utf-8")
    except (AttributeError, UnicodeEncodeError):
        normalize(text)  # raises the error
    return text


def serialize_tokenizer(
    toolkit: str, cut: str, model: str, tokens: Sequence[str], unknown: str = "", silent: Sequence[int] = ()
) -> bytes:
    """The file of an imported tokenizer."""
    about = {"from": toolkit, "cut": cut, "unknown": unknown, "silent": [*silent], "tokens": [*tokens], "model": model}
    return (json.dumps(about, ensure_ascii=False, indent=0) + "\n").encode()


def parse_tokenizer(model: bytes) -> dict[str, Any]:
    """Parse and check the file of an imported tokenizer."""
    expected = {"cut": str, "model": str, "unknown": str, "silent": list, "tokens": list}
    try:
        about = rename_keys(parse_json(model), {"pieces": "tokens"})  # written by earlier versions
        wrong = next((key for key, kind in expected.items() if not isinstance(about[key], kind)), None)
        if wrong is None and not all(isinstance(token, str) for token in about["tokens"]):
            wrong = "tokens"
        if wrong is None and not all(type(number) is int for number in about["silent"]):
            wrong = "silent"
    except (ValueError, KeyError, TypeError) as error:
        raise NotATokenizerError(
            f"these {len(model)} bytes are not an imported tokenizer ({render_value(error)})"
        ) from None
    if wrong is not None:
        raise NotATokenizerError(
            f"these {len(model)} bytes are not an imported tokenizer: {wrong} is {render_value(about[wrong])}"
        )
    return dict(about)
