"""String files in JSON: every string that is a value is translated, keys are not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from dragoman.documents.edits import Edit
from dragoman.documents.encoding import decode
from dragoman.documents.formats.strings.messages import string_slots, unescape
from dragoman.documents.languages import LanguageChange
from dragoman.documents.segment import NO_OPTIONS, ReadOptions
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.errors import DocumentError
from dragoman.files import NestingError, parse_json

TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
ESCAPE: Final = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)")


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> SplicedText:
    """Read a JSON file. In .arb files, and wherever else a key begins with @, the value describes a string: skip it."""
    text, encoding = decode(data, name)
    language, edits = LanguageChange(options.source, options.target), list[Edit]()

    def declare(key: str, value: str, start: int) -> None:
        if key == "@@locale" and language.declares_source(value):
            edits.append((start, start + len(value), language.tag.replace("-", "_")))

    return SplicedText(text, value_slots(text, name, on_skipped=declare), encoding, edits=edits)


def value_slots(
    text: str,
    name: str,
    start: int = 0,
    end: int | None = None,
    key: str = "",
    on_skipped: Callable[[str, str, int], None] = lambda key, value, start: None,
) -> list[Slot]:
    """The slots of the JSON value at `text[start:end]`; `name` is for messages, and `key` begins the keys.

    `on_skipped` gets the key, the value and the place of each string that describes others.
    """
    value = text[start:end]
    try:
        parse_json(value)
    except NestingError as error:
        message = f"{name} is {error}, which is not safe to read; split it"
        raise DocumentError(message, code="unsafe_document") from None
    except ValueError as error:
        raise DocumentError(f"{name} is not valid JSON: {error}", code="invalid_json") from None
    written = escape_ascii if value.isascii() and "\\u" in value else escape
    slots: list[Slot] = []
    path: list[str | int] = []  # the key or index of each open container
    after_key = False
    for token in TOKEN.finditer(text, start, len(text) if end is None else end):
        match token[0]:
            case "{":
                path.append("")
                after_key = False
            case "[":
                path.append(0)
            case "}" | "]":
                path.pop()
            case ",":
                last = path.pop()
                path.append(last + 1 if isinstance(last, int) else "")
                after_key = False
            case ":":
                after_key = True
            case string if string.startswith('"'):
                if path and isinstance(path[-1], str) and not after_key:
                    path[-1] = json.loads(string)
                elif any(isinstance(part, str) and part.startswith("@") for part in path):
                    on_skipped(".".join(map(str, path)), string[1:-1], token.start() + 1)
                else:
                    content, places = unescape(
                        string[1:-1], token.start() + 1, ESCAPE, lambda found: str(json.loads(f'"{found[0]}"'))
                    )
                    slots += string_slots(content, places, key + ".".join(map(str, path)), written, original=text)
    return slots


def escape(text: str) -> str:
    """Text inside a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def escape_ascii(text: str) -> str:
    """The same in ASCII, for files that are written so."""
    return json.dumps(text)[1:-1]
