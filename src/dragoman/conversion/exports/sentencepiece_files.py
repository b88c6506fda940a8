"""Tokenizers for other toolkits: sentencepiece models that normalize text as we do, and the names of all tokens."""

from __future__ import annotations

import io
import tempfile
import unicodedata
from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from dragoman.conversion.subword_model import BYTES, VARINT, read_fields, write_varint
from dragoman.errors import ConversionError
from dragoman.modeldir.info import ModelInfo
from dragoman.text import Tokenizer
from dragoman.text.imported.tokenizer import ImportedTokenizer, parse_tokenizer
from dragoman.text.normalization import DROPPED
from dragoman.text.sentencepiece import SentencePieceTokenizer

SPACELESS_LANGUAGES: Final = {"zh", "yue", "wuu", "ja", "th", "lo", "km", "my", "bo", "dz"}
# Fields of sentencepiece's ModelProto and of its NormalizerSpec.
NORMALIZER_SPEC, NAME, CHARSMAP, DUMMY_PREFIX, REMOVE_EXTRA_SPACES = 3, 1, 2, 3, 4
HANGUL: Final = range(0xAC00, 0xD7A4)  # 11,172 syllables, which would make the table ten times as large


@dataclass(frozen=True)
class ExportedTokenizers:
    """The sentencepiece models of both sides, and the names of their tokens in the order of the ids.

    Target languages are named as in Opus-MT, `>>de<<`. `begins_with_space`: the source's model puts a space before the
    first word, as ours does for all scripts that have spaces.
    """

    models: tuple[bytes, bytes]
    names: tuple[list[str], list[str]]
    languages: tuple[str, ...]
    begins_with_space: bool

    @property
    def shared(self) -> bool:
        """Whether both sides have the same tokens."""
        return self.names[0] == self.names[1]


def export_tokenizers(source: Tokenizer, target: Tokenizer, info: ModelInfo) -> ExportedTokenizers:
    """The files of both tokenizers; ConversionError for kinds that sentencepiece does not have."""
    begins = not (len(info.source_languages) > 0 and {*info.source_languages} <= SPACELESS_LANGUAGES)
    models = (sentencepiece_model(source, begins), sentencepiece_model(target, True))
    return ExportedTokenizers(models, (token_names(source), token_names(target)), source.targets, begins)


def sentencepiece_model(tokenizer: Tokenizer, begins_with_space: bool) -> bytes:
    """A sentencepiece model that encodes plain text; ours leave normalization to the caller."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        return with_normalizer(tokenizer.model, begins_with_space)
    if isinstance(tokenizer, ImportedTokenizer) and parse_tokenizer(tokenizer.model)["cut"] == "sentencepiece":
        return b64decode(parse_tokenizer(tokenizer.model)["model"])
    raise ConversionError(
        f"the tokenizer of kind {tokenizer.kind!r} is not a sentencepiece model, which the other toolkits need; export "
        "a model with a BPE or unigram tokenizer",
        code="unsupported_tokenizer",
    )


def token_names(tokenizer: Tokenizer) -> list[str]:
    """The name of each id, all different."""
    names = list(tokenizer.tokens(range(tokenizer.first_target)))
    known: set[str] = set()
    for i, name in enumerate(names):
        names[i] = name if name not in known else f"<{i} {name}>"
        known.add(names[i])
    return [*names, *(f">>{code}<<" for code in tokenizer.targets)]


def with_normalizer(model: bytes, begins_with_space: bool) -> bytes:
    """A sentencepiece model whose own normalizer is replaced by ours."""
    spec = b"".join([
        field(NAME, b"dragoman"),
        field(CHARSMAP, character_rules()),
        flag(DUMMY_PREFIX, begins_with_space),
        flag(REMOVE_EXTRA_SPACES, True),
    ])  # fmt: skip
    return model + field(NORMALIZER_SPEC, spec)  # a repeated message is merged, and its later values count


@cache
def character_rules() -> bytes:
    """Our normalization as sentencepiece's compiled rules, taken from a model that it makes of them."""
    from sentencepiece import SentencePieceTrainer

    written = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", encoding="utf-8") as file:
        for before, after in normalization_rules().items():
            file.write("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in (before, after)) + "\n")
        file.flush()
        SentencePieceTrainer.train(
            sentence_iterator=iter(["a"]),
            model_writer=written,
            model_type="char",
            vocab_size=10,
            hard_vocab_limit=False,
            normalization_rule_tsv=file.name,
            minloglevel=2,
        )
    model = written.getvalue()
    spec = next(model[start:end] for n, _, _, start, end in read_fields(model) if n == NORMALIZER_SPEC)
    return next(spec[start:end] for n, _, _, start, end in read_fields(spec) if n == CHARSMAP)


def normalization_rules() -> dict[str, str]:
    """What `text.normalization.normalize` replaces: white space, removed characters, and NFC without Hangul."""
    rules: dict[str, str] = {}
    for number in (*range(1, 0xD800), *range(0xE000, 0x110000)):
        character = chr(number)
        if DROPPED.match(character):
            rules[character] = ""
        elif character.isspace() and character != " ":
            rules[character] = " "
        parts = unicodedata.decomposition(character)
        if not parts or parts.startswith("<") or number in HANGUL:
            continue
        composed = unicodedata.normalize("NFC", character)
        if composed != character:
            rules[character] = composed
        else:
            rules["".join(chr(int(part, 16)) for part in parts.split())] = character
            rules[unicodedata.normalize("NFD", character)] = character
    return rules


def field(number: int, content: bytes) -> bytes:
    """A Protocol Buffer field of bytes."""
    return bytes([number << 3 | BYTES]) + write_varint(len(content)) + content


def flag(number: int, value: bool) -> bytes:
    """A Protocol Buffer field that is true or false."""
    return bytes([number << 3 | VARINT, value])


def vocabulary_json(names: Sequence[str]) -> dict[str, int]:
    """The tokens with their ids, as Hugging Face's `vocab.json` has them."""
    return {name: i for i, name in enumerate(names)}
