"""SubRip subtitles (.srt)."""

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

TIME: Final = r"(?P<{0}h>\d{{1,3}}):(?P<{0}m>\d\d):(?P<{0}s>\d\d)[,.](?P<{0}f>\d{{1,3}})"
TIMING: Final = re.compile(rf"^[ \t]*{TIME.format('b')}[ \t]*-->[ \t]*{TIME.format('e')}[^\n]*(?:\n|\Z)", re.MULTILINE)
NUMBER: Final = re.compile(r"^[ \t]*\d+[ \t\r]*\n\Z", re.MULTILINE)
BLANK: Final = re.compile(r"\n[ \t\r]*\n")
MARKUP: Final = re.compile(r"(?P<line>\r?\n)|</?(?:[ibus]|font)\b[^<>\n]*>|\{\\[^{}\n]*\}", re.IGNORECASE)


def tag(markup: str) -> tuple[TagKind, str]:
    """What a tag is: HTML's come in pairs, {\\an8} and the like stand alone."""
    if markup.startswith("{"):
        return ("point", "override")
    name = re.sub(r"\W.*", "", markup.lstrip("</")).lower()
    return ("close" if markup.startswith("</") else "open", name)


def read(data: bytes, name: str) -> SubtitleDocument:
    """Read a file; numbers, times and positions are left as they are."""
    text, encoding = decode_subtitles(data, name)
    syntax = Syntax(MARKUP, tag, "\r\n" if "\r\n" in text else "\n")
    cues = [part for cue in find_cues(text) for part in dialogue_lines(trim_cue(cue, text, syntax), text, syntax)]
    if not cues:
        raise DocumentError(
            f"{name} has no cues such as 00:00:01,000 --> 00:00:02,000 with text",
            code="damaged_document",
        )
    return make_document(text, encoding, syntax, cues, wraps=True)


def find_cues(text: str) -> Iterator[Cue]:
    """The paragraphs of each cue, of which there is usually one."""
    timings = list(TIMING.finditer(text))
    number = NUMBER.search(text, 0, timings[0].start()) if timings else None
    for order, (timing, following) in enumerate(zip(timings, [*timings[1:], None], strict=False), 1):
        own = str(order) if number is None else number[0].strip()
        end = len(text) if following is None else following.start()
        number = None if following is None else NUMBER.search(text, timing.end(), end)
        if number is not None:
            end = number.start()
        begins, ends = (seconds(timing, side) for side in "be")
        start = timing.end()
        for blank in [*BLANK.finditer(text, start - 1, end), None]:
            stop = end if blank is None else blank.start()
            if text[start:stop].strip():
                yield Cue(own, start, stop, begins, ends)
            start = stop if blank is None else blank.end()


def seconds(timing: re.Match[str], side: str) -> float:
    """The time of a cue."""
    hours, minutes, whole, fraction = (timing[f"{side}{unit}"] for unit in "hmsf")
    return int(hours) * 3600 + int(minutes) * 60 + int(whole) + int(fraction.ljust(3, "0")) / 1000
