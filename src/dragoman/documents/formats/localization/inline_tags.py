"""HTML tags and entities inside strings, such as the messages of programs."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from typing import Final

from dragoman.documents.markup import CODE_TAGS, ENTITY, STRING_VOID
from dragoman.documents.segment import SegmentBuilder

MARKUP: Final = re.compile(rf"<(?P<slash>/?)(?P<name>[A-Za-z][\w:.-]*)(?P<rest>(?:\s[^<>]*|/)?)>|{ENTITY.pattern}")


def add_tagged_text(builder: SegmentBuilder, text: str, quote: Callable[[str], str] = str) -> None:
    """Add a string to a segment: its tags as spans, its entities and lone tags such as <file> as protected text.

    `quote` writes markup in the syntax of the document, for example XML in which tags are escaped.
    """
    found = list(MARKUP.finditer(text))
    closed = {match["name"] for match in found if match["slash"]}
    place = 0
    for match in found:
        if match.start() < place:
            continue
        builder.add_text(text[place : match.start()])
        place, tag, name = match.end(), match[0], match["name"]
        if name is None:
            builder.add_protected(html.unescape(tag), quote(tag), name=tag)
        elif match["slash"]:
            builder.close_pair(quote(tag), name)
        elif name.lower() in STRING_VOID or match["rest"].endswith("/"):
            builder.add_point(quote(tag), name=name)
        elif name not in closed:
            builder.add_protected(tag, quote(tag), name=tag)
        elif name.lower() in CODE_TAGS and (end := text.find(f"</{name}>", place)) >= 0:
            last = end + len(name) + 3
            builder.add_protected(text[place:end], quote(text[match.start() : last]), name=name)
            place = last
        else:
            builder.open_pair(quote(tag), name=name)
    builder.add_text(text[place:])
