"""Subword models for toolkits that leave segmentation to other programs: sentencepiece, subword-nmt, or none."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman.conversion.source_checkpoint import read_bytes
from dragoman.errors import ConversionError, TextError
from dragoman.text.imported.segmentation import encode_model
from dragoman.text.imported.subword_nmt import SubwordCodes
from dragoman.text.sentencepiece import load_processor, token_names

PRETOKENIZED_NOTE = (
    "Input must be tokenized as in training, with spaces between tokens. To translate plain text, import the model "
    "again and give its sentencepiece model or subword-nmt codes as `tokenizer`."
)

# From sentencepiece's Protocol Buffer: token types, wire types, and the key of the token field.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = range(1, 6)
VARINT, BYTES = 0, 2
TOKEN: Final = 1 << 3 | BYTES


@dataclass(frozen=True)
class SubwordModel:
    """A kind of segmentation and its serialized model; `file` is the file it was read from."""

    kind: str = "spaces"
    model: str = ""
    file: Path | None = None


def read_subword_model(file: Path | None) -> SubwordModel:
    """Read a subword model; without a file, tokens are separated by spaces."""
    if file is None:
        return SubwordModel()
    content = read_bytes(file)
    try:
        token_names(load_processor(content))
        return SubwordModel("sentencepiece", encode_model(content), file)
    except TextError:
        pass
    try:
        codes = content.decode("utf-8")
        SubwordCodes(codes)
    except (UnicodeDecodeError, TextError) as error:
        raise ConversionError(
            f"{file} is neither a sentencepiece model nor a file of subword-nmt codes ({error}); give the file that "
            "the training data was tokenized with",
            code="not_a_tokenizer",
        ) from None
    return SubwordModel("subword-nmt", codes, file)


def read_subword_models(source: Path | None, target: Path | None) -> tuple[SubwordModel, SubwordModel]:
    """Read the subword models of both sides; the target's defaults to the source's."""
    first = read_subword_model(source)
    return first, first if target is None else read_subword_model(target)


def tokenization_notes(*models: SubwordModel) -> list[str]:
    """Return notes for users of models with these subword models."""
    return [PRETOKENIZED_NOTE] if any(model.kind == "spaces" for model in models) else []


def restrict_vocabulary(model: bytes, vocabulary: Container[str]) -> bytes:
    """Restrict a sentencepiece model to the tokens of a vocabulary and single characters.

    Not all releases of the library have a SetVocabulary that does this, so edit the serialized model: tokens are field
    1, each with a text (1), a score (2) and a type (3). If a number is repeated, the last one counts.
    """
    restricted = bytearray()
    for field, kind, start, content, end in read_fields(model):
        if (field, kind) != (1, BYTES):
            restricted += model[start:end]
            continue
        text, of_kind = "", NORMAL
        for inner, _, _, value, stop in read_fields(model[content:end]):
            if inner == 1:
                text = model[content + value : content + stop].decode("utf-8", errors="replace")  # checked on loading
            elif inner == 3:
                of_kind = read_varint(model[content:end], value)[0]
        entry = model[content:end]
        if of_kind not in (UNKNOWN, CONTROL, USER_DEFINED):
            entry += bytes([3 << 3 | VARINT, NORMAL if text in vocabulary or len(text) == 1 else UNUSED])
        restricted += bytes([TOKEN]) + write_varint(len(entry)) + entry
    return bytes(restricted)


def read_fields(message: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """For each field, yield its number, its wire type, and where it, its content and the next field start."""
    position = 0
    while position < len(message):
        key, content = read_varint(message, position)
        match key & 7:
            case 0:
                end = read_varint(message, content)[1]
            case 1:
                end = content + 8
            case 2:
                size, content = read_varint(message, content)
                end = content + size
            case 5:
                end = content + 4
            case kind:
                raise ConversionError(
                    f"the sentencepiece model has a field of unknown wire type {kind}; copy it again",
                    code="file_damaged",
                )
        if end > len(message):
            raise ConversionError("the sentencepiece model is truncated; copy it again", code="file_damaged")
        yield key >> 3, key & 7, position, content, end
        position = end


def read_varint(message: bytes, position: int) -> tuple[int, int]:
    """Read a base-128 varint; return its value and where it ends."""
    value = shift = 0
    while position < len(message) and shift < 70:  # ten digits hold 64 bits
        byte = message[position]
        value, shift, position = value | (byte & 127) << shift, shift + 7, position + 1
        if byte < 128:
            return value, position
    raise ConversionError("the sentencepiece model ends in the middle of a number; copy it again", code="file_damaged")


def write_varint(value: int) -> bytes:
    """Serialize a varint, as `read_varint` reads it."""
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])
