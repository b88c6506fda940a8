"""WebVTT subtitles (.vtt)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final

from dragoman.documents.formats.subtitles.cues import (
    Cue,
    SubtitleDocument,
    Syntax,
    TagKind,
    decode_subtitles,
    dialogue_lines,
    make_document,
    plain,
    trim_cue,
)
from dragoman.documents.markup import escape_text
from dragoman.errors import DocumentError

TIME: Final = r"(?:(\d{2,}):)?(\d\d):(\d\d)\.(\d{3})"
TIMING: Final = re.compile(rf"^[ \t]*{TIME}[ \t]+-->[ \t]+{TIME}[^\n]*(?:\n|\Z)", re.MULTILINE)
BLOCK_END: Final = re.compile(r"\n\r?(?:\n|\Z)|\Z")
MARKUP: Final = re.compile(
    r"(?P<line>\r?\n)|<rt\b[^<>\n]*>[^<>]*</rt>|</?(?:[bcuiv]|lang|ruby|rt)(?=[\s.>])[^<>\n]*>|<(?:\d+:)?\d\d:\d\d\.\d{3}>"
)
VOICE: Final = re.compile(r"\s*<v[\s.][^<>\n]*>")


def tag(markup: str) -> tuple[TagKind, str]:
    """What a tag is: time stamps and the readings of ruby stand alone."""
    if markup[1:2].isdigit():
        return ("point", "timestamp")
    if markup.startswith("<rt"):
        return ("point", "rt")
    name = re.sub(r"[\s.>].*", "", markup.lstrip("</"))
    return ("close" if markup.startswith("</") else "open", name)


def read(data: bytes, name: str) -> SubtitleDocument:
    """Read a file; times, settings, notes, styles and regions are left as they are."""
    text, encoding = decode_subtitles(data, name)
    if not text.startswith("WEBVTT"):
        raise DocumentError(f"{name} does not begin with WEBVTT", code="damaged_document")
    newline = "\r\n" if "\r\n" in text else "\n"
    syntax = Syntax(MARKUP, tag, newline, escape_text, html.unescape)
    cues = list(find_cues(text))
    if is_rolling(text, cues, syntax):
        cues = [line for cue in cues for line in cue_lines(cue, text)]
        parts = [trim_cue(cue, text, syntax) for cue in cues]
    else:
        parts = [part for cue in cues for part in dialogue_lines(trim_cue(cue, text, syntax), text, syntax)]
    return make_document(text, encoding, syntax, [part for part in parts if part.start < part.end], wraps=True)


def find_cues(text: str) -> Iterator[Cue]:
    """The cues with their text; a cue ends at a blank line."""
    for number, timing in enumerate(TIMING.finditer(text), 1):
        begins, ends = (seconds(timing.groups()[side : side + 4]) for side in (0, 4))
        found = BLOCK_END.search(text, timing.end() - 1)
        end = len(text) if found is None else max(found.start(), timing.end())
        voice = VOICE.match(text, timing.end(), end)
        if text[timing.end() : end].strip():
            yield Cue(str(number), timing.end(), end, begins, ends, voice[0].strip() if voice else "")


def is_rolling(text: str, cues: list[Cue], syntax: Syntax) -> bool:
    """Whether lines scroll: most cues begin with the last line of the one before, as in automatic captions."""
    lines = [
        [" ".join(line.split()) for line in plain(text[cue.start : cue.end], syntax).split("\n") if line.strip()]
        for cue in cues
    ]
    repeated = sum(bool(a and b and a[-1] == b[0]) for a, b in pairwise(lines))
    return len(cues) > 2 and repeated > len(cues) / 2


def cue_lines(cue: Cue, text: str) -> Iterator[Cue]:
    """Each line of a cue by itself."""
    place = cue.start
    for line in text[cue.start : cue.end].split("\n"):
        if line.strip():
            yield replace(cue, start=place, end=place + len(line), joined=False)
        place += len(line) + 1


def seconds(parts: tuple[str | None, ...]) -> float:
    """A time from hours, minutes, seconds and thousandths."""
    hours, minutes, whole, fraction = (int(part or 0) for part in parts)
    return hours * 3600 + minutes * 60 + whole + fraction / 1000
