"""The syntax of PO files: entries with the places of their parts, and strings as gettext writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from dragoman.errors import DocumentError

WIDTH: Final = 79  # of lines, as gettext wraps them
TOKEN: Final = re.compile(
    r"[ \t\r\f\v]*(?:(?P<comment>#[^\n]*)|(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:[ \t]*\[[ \t]*(?P<form>\d+)"
    r'[ \t]*\])?|domain)(?=[\s"])|(?P<string>"(?:[^"\\\n]|\\[^\n])*")|(?P<end>\n|\Z))'
)
ESCAPE: Final = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", '"': '"', "\\": "\\"}
ESCAPED: Final = {character: f"\\{letter}" for letter, character in LETTERS.items()}
UNIT: Final = re.compile(r"\\.|[^\s\\]+|\s")  # what a line may not break inside of


@dataclass
class Field:
    """A keyword and its strings: `text[start:end]` from the first quote to the last."""

    keyword: str
    form: int | None
    at: int  # of the keyword
    line: int
    start: int = -1
    end: int = -1
    value: str = ""


@dataclass
class Entry:
    """A message: its comments and fields, with their places."""

    comments: list[tuple[int, str]] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)

    def get(self, keyword: str) -> Field | None:
        """The field of that keyword."""
        return next((one for one in self.fields if one.keyword == keyword), None)

    @property
    def translations(self) -> dict[int, Field]:
        """The fields with translations, by plural form; 0 if there are no plural forms."""
        return {one.form or 0: one for one in self.fields if one.keyword == "msgstr"}

    @property
    def flags(self) -> list[str]:
        """The flags, such as fuzzy and c-format."""
        return [
            flag.strip() for _, comment in self.comments if comment.startswith("#,") for flag in comment[2:].split(",")
        ]


def parse(text: str, name: str) -> list[Entry]:
    """The entries of a PO file; obsolete entries are comments."""
    entries, entry = list[Entry](), Entry()
    for token, line in tokens(text, name):
        last = entry.fields[-1] if entry.fields else None
        if (comment := token["comment"]) is not None:
            if last is not None and last.keyword == "msgstr":
                entry = Entry()
                entries.append(entry)
            if not comment.startswith("#~"):
                entry.comments.append((token.start("comment"), comment))
        elif (keyword := token["keyword"]) is not None:
            keyword = keyword.split("[")[0].strip()
            if last is not None and last.keyword == "msgstr" and keyword != "msgstr":
                entry = Entry()
            if not entries or entries[-1] is not entry:
                entries.append(entry)
            form = None if token["form"] is None else int(token["form"])
            if keyword == "msgstr" and (entry.get("msgid") is None or (form or 0) in entry.translations):
                raise damaged(name, line, "msgstr without a msgid" if entry.get("msgid") is None else "msgstr twice")
            if keyword != "msgstr" and entry.get(keyword) is not None:
                raise damaged(name, line, f"{keyword} twice in a message")
            entry.fields.append(Field(keyword, form, token.start("keyword"), line))
        elif token["string"] is not None:
            if last is None:
                raise damaged(name, line, "a string without a keyword")
            last.start = token.start("string") if last.start < 0 else last.start
            last.end = token.end("string")
            last.value += unescape(token["string"][1:-1])
    for one in entries:
        for part in one.fields:
            if part.start < 0:
                raise damaged(name, part.line, f"{part.keyword} without a string")
        if one.get("msgid") is not None and not one.translations:
            raise damaged(name, one.fields[-1].line, "msgid without a msgstr")
    return [one for one in entries if one.translations]


def tokens(text: str, name: str) -> Iterator[tuple[re.Match[str], int]]:
    """Comments, keywords and strings with their line numbers."""
    place, line = 0, 1
    while place < len(text):
        found = TOKEN.match(text, place)
        if found is None:
            raise damaged(name, line, f"{text[place : place + 30].splitlines()[0].strip()!r} is not PO syntax")
        if found["end"] is None:
            yield found, line
        else:
            line += 1
        place = found.end() + (found["end"] == "" and found.end() == place)


def damaged(name: str, line: int, problem: str) -> DocumentError:
    """The error of a file that is not a valid PO file."""
    return DocumentError(f"{name}, line {line:,}: {problem}; check the file with msgfmt -c", code="damaged_document")


def unescape(string: str) -> str:
    """The text of a string without its quotes."""

    def character(found: re.Match[str]) -> str:
        code = found[0][1:]
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return chr(int(code, 8) & 255) if code[0].isdigit() and code[0] in "01234567" else LETTERS.get(code, code)

    return ESCAPE.sub(character, string)


def escape(text: str) -> str:
    """Text inside quotes."""
    return "".join(ESCAPED.get(character, character) for character in text)


def quote(text: str, keyword: str, newline: str = "\n", wrap: bool = True) -> str:
    """Text as one or more strings: one line, or an empty string and lines that end at line breaks and spaces."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text) or [""]
    one = f'"{escape(text)}"'
    if len(lines) == 1 and (not wrap or len(keyword) + 1 + len(one) <= WIDTH + 1):
        return one
    written = ['""']
    for line in lines:
        written += [f'"{part}"' for part in fold(escape(line), WIDTH - 2)] if wrap else [f'"{escape(line)}"']
    return newline.join(written)


def fold(escaped: str, width: int) -> Iterator[str]:
    """Parts of a line of at most `width` characters if possible; spaces stay at the end of a part."""
    part, word = "", ""
    for unit in UNIT.findall(escaped):
        word += unit
        if unit == " ":
            if part and len(part) + len(word) > width:
                yield part
                part = ""
            part, word = part + word, ""
    if part and word and len(part) + len(word) > width and word != "\\n":
        yield part
        part = ""
    yield part + word
