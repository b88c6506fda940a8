"""HTML tags and entities inside strings, such as the messages of programs."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Set
from typing import Final

from dragoman.documents.formats.strings.numbered_tags import paired_tags
from dragoman.documents.markup import CODE_TAGS, COMMENT, ENTITY, STRING_BLOCKS, STRING_VOID
from dragoman.documents.segment import SegmentBuilder

MARKUP: Final = re.compile(  # a number has no attributes: <5 and 7> is text
    rf"<(?P<slash>/?)(?P<name>[A-Za-z][\w:.-]*|\d{{1,3}}(?=\s*/?>))(?P<rest>(?:\s[^<>]*|/)?)>|{ENTITY.pattern}|{COMMENT.pattern}"
)
MARKUP_AND_COUNTS: Final = re.compile(f"{MARKUP.pattern}|#")


def closed_names(text: str) -> set[str]:
    """The names of the end tags in a string."""
    return {match["name"] for match in MARKUP.finditer(text) if match["slash"]}


def add_tagged_text(
    builder: SegmentBuilder,
    text: str,
    quote: Callable[[str], str] = str,
    closed: Set[str] | None = None,
    prefix: str = "",
    counts: bool = False,
) -> None:
    """Add a string to a segment: its tags as spans, its entities and lone tags such as <file> as protected text.

    `quote` writes markup in the syntax of the document, for example XML in which tags are escaped. `closed` are the
    names of the end tags, if the string is a part of a text. `prefix` distinguishes the tags from elements.
    With `counts`, # is protected too, the number of a plural.
    """
    paired = paired_tags(text, 0, len(text))
    found = list((MARKUP_AND_COUNTS if counts else MARKUP).finditer(text))
    closed = closed_names(text) if closed is None else closed
    place = 0
    for match in found:
        if match.start() < place:
            continue
        builder.add_text(text[place : match.start()])
        place, tag, name = match.end(), match[0], match["name"]
        if tag.startswith("<!"):
            builder.add_point(quote(tag))
        elif name is None:
            builder.add_protected(html.unescape(tag), quote(tag), name=tag)
        elif name.isdecimal() and match.start() not in paired:
            builder.add_protected(tag, quote(tag), name=tag)
        elif name.lower() in STRING_BLOCKS and name in closed and not match["rest"].endswith("/"):
            builder.add_point(quote(tag), name="br")
            builder.separate_words("br", text[place : place + 1])
        elif match["slash"]:
            builder.close_pair(quote(tag), prefix + name)
        elif name.lower() in STRING_VOID or match["rest"].endswith("/"):
            builder.add_point(quote(tag), name=name)
            builder.separate_words(name, text[place : place + 1])
        elif name not in closed and not name.isdecimal():
            builder.add_protected(tag, quote(tag), name=tag)
        elif name.lower() in CODE_TAGS and (end := text.find(f"</{name}>", place)) >= 0:
            last = end + len(name) + 3
            builder.add_protected(text[place:end], quote(text[match.start() : last]), name=name)
            place = last
        else:
            builder.open_pair(quote(tag), name=prefix + name)
    builder.add_text(text[place:])
