"""Advanced SubStation Alpha subtitles (.ass, .ssa)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dragoman.documents.formats.subtitles.cues import (
    Cue,
    SubtitleDocument,
    Syntax,
    TagKind,
    decode_subtitles,
    dialogue_lines,
    make_document,
    trim_cue,
)
from dragoman.errors import DocumentError

SECTION: Final = re.compile(r"^\s*\[([^\]\n]*)\]")
MARKUP: Final = re.compile(r"(?P<line>\\N|\\n)|\{[^{}]*\}")
SWITCH: Final = re.compile(r"\{\\([ibus])([01])\}")
DRAWING: Final = re.compile(r"\{[^{}]*\\p[1-9]")
KARAOKE: Final = re.compile(r"\{[^{}]*\\[kK][fo]?\d")
TIME: Final = re.compile(r"\s*(\d+):(\d+):(\d+(?:\.\d+)?)\s*")


def tag(markup: str) -> tuple[TagKind, str]:
    """What an override is: italics and the like come in pairs, all others stand alone."""
    if switch := SWITCH.fullmatch(markup):
        return ("open" if switch[2] == "1" else "close", switch[1])
    return ("point", "override")


def escape(text: str) -> str:
    """Text without the characters that begin overrides."""
    return text.replace("{", "(").replace("}", ")").replace("\u00a0", "\\h")


def read(data: bytes, name: str) -> SubtitleDocument:
    """Read a file: the text of its dialogue. Styles, drawings, karaoke and comments are left as they are."""
    text, encoding = decode_subtitles(data, name)
    syntax = Syntax(MARKUP, tag, "\\N", escape, lambda raw: raw.replace("\\h", " "))
    cues = list(find_cues(text, name))
    wraps = any(MARKUP.search(text, cue.start, cue.end) and "\\N" in text[cue.start : cue.end] for cue in cues)
    parts = [part for cue in cues for part in dialogue_lines(trim_cue(cue, text, syntax), text, syntax)]
    return make_document(text, encoding, syntax, [part for part in parts if part.start < part.end], wraps)


def find_cues(text: str, name: str) -> Iterator[Cue]:
    """The dialogue events with the place of their text, the last field."""
    section, fields, place, number = "", list[str](), 0, 0
    for line in text.split("\n"):
        start, place = place, place + len(line) + 1
        if found := SECTION.match(line):
            section = found[1].strip().lower()
        if section != "events":
            continue
        kind, _, rest = line.partition(":")
        if kind.strip() == "Format":
            fields = [field.strip().lower() for field in rest.split(",")]
        elif kind.strip() == "Dialogue":
            number += 1
            if fields[-1:] != ["text"] or "start" not in fields or "end" not in fields:
                raise DocumentError(
                    f"{name} has events without a Format line that ends with Text", code="damaged_document"
                )
            values = rest.rstrip("\r").split(",", len(fields) - 1)
            if len(values) < len(fields):
                raise DocumentError(f"{name} has an event with too few fields: {line[:60]}", code="damaged_document")
            own = dict(zip(fields, values, strict=True))
            if DRAWING.search(own["text"]) or KARAOKE.search(own["text"]):
                continue
            begins, ends = (seconds(own[field], name) for field in ("start", "end"))
            end = start + len(line.rstrip("\r"))
            voice = f"{own.get('style', '')}\t{own.get('name', own.get('actor', ''))}"
            yield Cue(str(number), end - len(own["text"]), end, begins, ends, voice)


def seconds(value: str, name: str) -> float:
    """The time of an event."""
    found = TIME.fullmatch(value)
    if found is None:
        raise DocumentError(f"{name} has an event with the time {value.strip()!r}", code="damaged_document")
    return int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])
