"""Text of HTML, with its entities and placeholders."""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Callable
from typing import Final

from dragoman.documents.formats.strings.messages import unescape
from dragoman.documents.segment import COLLAPSED, SegmentBuilder
from dragoman.documents.transfer.placeholders import find_placeholders, may_have_placeholders

REFERENCE: Final = re.compile(r"&(?:#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")  # as in html.unescape

INVISIBLE: Final = (  # white space, and what newsletters fill their previews with
    r"(?:[\s\u034f\u00ad\u200b-\u200d\ufeff]"
    r"|&(?:nbsp|zwnj|zwj|shy|#(?:160|173|847|8199|820[3-5]|65279|x(?:a0|ad|34f|2007|200[b-d]|feff)));)"
)
PADDING: Final = re.compile(f"{INVISIBLE}*", re.IGNORECASE)
LAST_INVISIBLE: Final = re.compile(rf"{INVISIBLE}\Z", re.IGNORECASE)
LONGEST_INVISIBLE: Final = len("&#65279;")


def without_padding(text: str, start: int, end: int) -> tuple[int, int]:
    """Start and end of a part of a text without white space and invisible characters at its ends."""
    padding = PADDING.match(text, start, end)
    start = start if padding is None else padding.end()
    while found := LAST_INVISIBLE.search(text, max(start, end - LONGEST_INVISIBLE), end):
        end = found.start()
    return start, end


def add_text(builder: SegmentBuilder, raw: str, escape: Callable[[str], str]) -> None:
    """Add the text of `raw`; placeholders that `escape` would change, such as {{ a > b }}, stay as they are."""
    text = html.unescape(raw)
    if not may_have_placeholders(text):
        builder.add_text(text)
        return
    text, places = unescape(raw, 0, REFERENCE, lambda found: html.unescape(found[0]))
    done, found = 0, deque(find_placeholders(text))
    while found:
        start, end = found.popleft()
        while found and found[0][0] == end:  # models do not copy masks that touch
            end = found.popleft()[1]
        plain, written = text[start:end], raw[places[start] : places[end]]
        if escape(COLLAPSED.sub(" ", plain) if builder.collapse else plain) != written:
            builder.add_text(text[done:start])
            builder.add_protected(plain, written, name=plain)
            done = end
    builder.add_text(text[done:])
