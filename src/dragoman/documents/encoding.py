"""Decode the bytes of a text document, and encode it again in the same way."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Final

from dragoman.errors import DocumentError

BYTE_ORDER_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class Encoding:
    """The encoding of a text, with its byte order mark if it has one."""

    name: str = "utf-8"
    mark: bytes = b""

    def encode(self, text: str, errors: str = "strict") -> bytes:
        """The bytes of a text; `errors` says what happens to characters that the encoding lacks."""
        try:
            return self.mark + text.encode(self.name, errors)
        except UnicodeEncodeError as error:
            raise DocumentError(
                f"the translation has the character {error.object[error.start]!r}, which the document's encoding, "
                f"{self.name}, lacks; save the document as UTF-8 first",
                code="unsupported_encoding",
            ) from None


def find_mark(start: bytes) -> tuple[bytes, str]:
    """The byte order mark that a file begins with, and its encoding; empty without one."""
    return next(((mark, encoding) for mark, encoding in BYTE_ORDER_MARKS if start.startswith(mark)), (b"", ""))


def decode(data: bytes, name: str, declared: str | None = None, at: int = 0) -> tuple[str, Encoding]:
    """The text of a file, by its byte order mark, else the encoding that it declares, else UTF-8.

    `at` is the place of the data in the file; only its beginning may have a mark.
    """
    mark, encoding = find_mark(data) if at == 0 else (b"", "")
    if not encoding:
        encoding = declared or "utf-8"
        try:
            if not codecs.lookup(encoding)._is_text_encoding or "<".encode(encoding) != b"<":
                raise LookupError  # in the others, what declares the encoding could not be read, and limits do not hold
        except LookupError:
            raise DocumentError(
                f"{name} declares the encoding {declared!r}, which is not supported; save it as UTF-8",
                code="unsupported_encoding",
            ) from None
    try:
        text = data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        raise DocumentError(
            f"{name} is not valid {encoding} at byte {at + len(mark) + error.start:,}; save it as UTF-8",
            code="unsupported_encoding",
        ) from None
    found = Encoding(encoding, mark)
    if "\0" in text:
        raise DocumentError(f"{name} has NUL characters: it is not a text file", code="damaged_document")
    exact = codecs.lookup(encoding).name == "utf-8"  # others, such as one with superfluous escapes, are checked
    if not exact and found.encode(text) != data:
        raise DocumentError(
            f"{name} cannot be written as it was read in {encoding}; save it as UTF-8", code="unsupported_encoding"
        )
    return text, found
