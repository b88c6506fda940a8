"""A sentencepiece model that may use some of its tokens only, as the library's SetVocabulary makes it.

The library cannot be asked for that in all its releases, so the model's own bytes are changed. They are a Protocol
Buffer: tokens are the field 1, each with a text (1), a score (2) and a type (3), and of a number that is there twice
the last one counts.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final

from dragoman.errors import ConversionError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = range(1, 6)
VARINT, EIGHT, BYTES, FOUR = 0, 1, 2, 5
TOKEN: Final = 1 << 3 | BYTES


def restricted(model: bytes, vocabulary: Container[str]) -> bytes:
    """The model without the tokens that are not in a vocabulary; single characters stay."""
    made = bytearray()
    for field, kind, start, content, end in fields(model):
        if (field, kind) != (1, BYTES):
            made += model[start:end]
            continue
        text, of_kind = "", NORMAL
        for inner, _, _, value, stop in fields(model[content:end]):
            if inner == 1:
                text = model[content + value : content + stop].decode("utf-8")
            elif inner == 3:
                of_kind = number(model[content:end], value)[0]
        entry = model[content:end]
        if of_kind not in (UNKNOWN, CONTROL, USER_DEFINED):
            entry += bytes([3 << 3 | VARINT, NORMAL if text in vocabulary or len(text) == 1 else UNUSED])
        made += bytes([TOKEN]) + written(len(entry)) + entry
    return bytes(made)


def fields(message: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """For each field its number, its kind, and where it, its content and what follows it begin."""
    place = 0
    while place < len(message):
        key, content = number(message, place)
        match key & 7:
            case 0:
                end = number(message, content)[1]
            case 1:
                end = content + 8
            case 2:
                size, content = number(message, content)
                end = content + size
            case 5:
                end = content + 4
            case kind:
                raise ConversionError(
                    f"a sentencepiece model has a field of kind {kind}, which is none; copy it again",
                    code="file_damaged",
                )
        if end > len(message):
            raise ConversionError(
                "a sentencepiece model ends in the middle of a field; copy it again", code="file_damaged"
            )
        yield key >> 3, key & 7, place, content, end
        place = end


def number(message: bytes, place: int) -> tuple[int, int]:
    """A number in base 128, the lowest digit first, and where it ends."""
    value = shift = 0
    while place < len(message):
        byte = message[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place
    raise ConversionError("a sentencepiece model ends in the middle of a number; copy it again", code="file_damaged")


def written(value: int) -> bytes:
    """The inverse of `number`."""
    digits = bytearray()
    while value > 127:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])
