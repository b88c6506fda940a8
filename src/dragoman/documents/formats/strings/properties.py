"""Java properties: `key = value` lines, continued after a backslash."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from dragoman.documents.encoding import Encoding, decode
from dragoman.documents.formats.strings.messages import string_slots, unescape
from dragoman.documents.segment import Segment
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.errors import DocumentError

ENTRY: Final = re.compile(
    r"^[ \t\f]*(?P<key>(?:[^\s:=\\#!]|\\[^\r\n])(?:[^\s:=\\]|\\[^\r\n])*)[ \t\f]*[:=]?[ \t\f]*"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|[\s\S]))*)",
    re.MULTILINE,
)
COMMENT: Final = re.compile(r"[ \t\f]*[#!]")
ESCAPE: Final = re.compile(r"\\(?:\r\n|[\r\n])[ \t\f]*|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u[0-9a-fA-F]{4}|\\.|''")
LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
MESSAGE: Final = re.compile(r"\{\d")  # MessageFormat, in which an apostrophe is written twice
QUOTED: Final = re.compile(r"(?:[^']|''|'[^'{}]+')*'(?!')[^']*[{}]")  # its quoted braces
SPECIAL: Final = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def read(data: bytes, name: str) -> SplicedText:
    """Read a properties file in UTF-8, or else in ISO 8859-1, as Java does."""
    try:
        text, encoding = decode(data, name)
    except DocumentError:
        text, encoding = decode(data, name, "iso-8859-1")
    ascii_only = data.isascii() or encoding != Encoding("utf-8", encoding.mark)
    slots: list[Slot] = []
    place = 0
    while place < len(text):
        line_end = re.compile(r"\r\n|\r|\n|\Z").search(text, place)
        assert line_end is not None
        entry = None if COMMENT.match(text, place) else ENTRY.match(text, place)
        if entry is None:
            place = max(line_end.end(), place + 1)
            continue
        place = max(entry.end(), place + 1)
        message = MESSAGE.search(entry["value"]) is not None
        if message and QUOTED.match(entry["value"]):
            segment = Segment(entry["value"], key=entry["key"], translate=False)
            slots.append(Slot(*entry.span("value"), segment))
            continue
        value, places = unescape(entry["value"], entry.start("value"), ESCAPE, unescaper(message))
        escape = escaper(message, ascii_only)
        slots += string_slots(value, places, entry["key"], escape, original=text, wrap=protect_start)
    return SplicedText(text, slots, encoding)


def protect_start(text: str) -> str:
    """A value whose first character is not taken for a part of what separates it from the key."""
    return f"\\{text}" if text[:1] in (" ", ":", "=") else text


def unescaper(message: bool) -> Callable[[re.Match[str]], str]:
    """What an escape stands for."""

    def replace(found: re.Match[str]) -> str:
        escape = found[0]
        if escape == "''":
            return "'" if message else escape
        if escape[1] in "\r\n":
            return ""
        if len(escape) == 12:  # a surrogate pair
            return bytes.fromhex(escape[2:6] + escape[8:]).decode("utf-16-be")
        if escape[1] == "u" and len(escape) == 6:
            return chr(int(escape[2:], 16))
        return LETTERS.get(escape[1], escape[1])

    return replace


def escaper(message: bool, ascii_only: bool) -> Callable[[str], str]:
    """The function that writes a text."""

    def escape(text: str) -> str:
        text = "".join(SPECIAL.get(character, character) for character in text)
        if message:
            text = text.replace("'", "''")
        if ascii_only:
            units = (text[i].encode("utf-16-be").hex() for i in range(len(text)))
            text = "".join(
                character if character.isascii() else "".join(f"\\u{code[i : i + 4]}" for i in range(0, len(code), 4))
                for character, code in zip(text, units, strict=True)
            )
        return text

    return escape
