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
