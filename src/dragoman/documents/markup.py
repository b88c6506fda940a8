"""A scanner for HTML and XML: tags, attributes and text with their places in the original.

Parsers build trees and forget the bytes. To write a document with everything but the words unchanged, only places are
needed, and HTML need not even be well formed.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

TokenKind = Literal["start", "end", "empty", "text", "other"]
ATTRIBUTE: Final = re.compile(
    r"""(?P<name>[^\s"'<>/=\x00]+)(?:\s*=\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s"'=<>`]+)))?"""
)
# Possessive, so that a tag without an end is tried once, not once for each way to divide it.
TAG: Final = re.compile(
    r"""<(?P<slash>/?)(?P<name>[A-Za-z_:][^\s/>\x00]*+)(?P<attributes>(?:[^"'>]|"[^"]*"|'[^']*')*+)>""", re.DOTALL
)
TAG_START: Final = re.compile(r"</?[A-Za-z_:][^\s/>\x00]*+")
QUOTED: Final = re.compile(r""""[^"]*(?:"|\Z)|'[^']*(?:'|\Z)|<""")
OTHER: Final = re.compile(  # <![if !supportLists]> is a comment too, of Word
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[.*?(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|<!\[(?:if\s[^<>]*|endif)\]>", re.DOTALL
)
TEMPLATE_TAG: Final = re.compile("<%.*?%>", re.DOTALL)
DECLARATION: Final = re.compile(r"<![A-Za-z](?:[^\[>]|\[[^\]]*\])*+>")
ENTITY: Final = re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{1,6}|#x[0-9a-fA-F]{1,5});")
# void elements in strings of programs; not all of HTML's, because <link> and others enclose text in some programs
Names = frozenset[str]
STRING_VOID: Final = frozenset(["br", "hr", "img", "input", "wbr"])
CODE_TAGS: Final = frozenset(["code", "kbd", "samp", "var", "tt", "pre"])  # in strings of programs
FORBIDDEN: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # characters that XML lacks
CDATA: Final = "<![CDATA["
COMMENT: Final = re.compile(r"<!--(?:[^-]|-(?!->)){0,4000}+-->")  # in strings of programs


@dataclass(frozen=True)
class Attribute:
    """An attribute: its value is `raw[start:end]` of the document, without quotes."""

    name: str
    value: str
    start: int
    end: int
    quote: str  # empty for a value without quotes


@dataclass(frozen=True)
class Token:
    """A piece of markup or text, and its place; all tokens together are the document.

    `name` is that of a tag. "empty" is a tag that closes itself, "other" is a comment, a CDATA section, a processing
    instruction, a document type or a tag of a template such as <%= x %>.
    """

    kind: TokenKind
    start: int
    end: int
    name: str = ""
    attributes: tuple[Attribute, ...] = ()

    def get(self, name: str) -> str | None:
        """The value of an attribute."""
        return next((one.value for one in self.attributes if one.name == name), None)


class TagFinder:
    """Finds the tags of a text; many tags without an end take no longer than a few."""

    def __init__(self, text: str) -> None:
        self.text, self.endless = text, set[int]()  # the places of < from which no tag ends

    def match(self, place: int, end: int) -> re.Match[str] | None:
        """The tag that begins at a place and ends before `end`."""
        if place in self.endless:
            return None
        found = TAG.match(self.text, place, end)
        if found is None and (start := TAG_START.match(self.text, place, end)):
            # A tag that begins outside of its quotes would end where it does. So no more than three are tried in vain:
            # at each place one of them is outside of quotes, one inside double and one inside single quotes.
            self.endless.update(i for i in range(place, start.end()) if self.text[i] == "<")
            self.endless.update(one.start() for one in QUOTED.finditer(self.text, start.end(), end) if one[0] == "<")
        return found


def scan(text: str, raw_elements: frozenset[str] = frozenset(), lower: bool = False, start: int = 0) -> Iterator[Token]:
    """The tokens of HTML or XML, from `start`.

    The content of `raw_elements` (script, style) is one token "other". With `lower`, names are lower case, as in HTML.
    """
    place, tags, declares = start, TagFinder(text), True
    last_template_tag = text.rfind("%>")  # so that many <% without an end take no longer than a few
    while place < len(text):
        start = text.find("<", place)
        if start < 0:
            start = len(text)
        if start > place:
            yield Token("text", place, start)
            place = start
            continue
        found = OTHER.match(text, place)
        if found is None and place < last_template_tag:
            found = TEMPLATE_TAG.match(text, place)
        if found is None and declares and text.startswith("<!", place):
            found = DECLARATION.match(text, place)
            declares = found is not None or not text[place + 2 : place + 3].isalpha()  # one without an end: no more
        if found:
            yield Token("other", place, found.end())
            place = found.end()
            continue
        found = tags.match(place, len(text))
        if found is None:  # a lone <
            end = text.find("<", place + 1)
            end = len(text) if end < 0 else end
            yield Token("text", place, end)
            place = end
            continue
        name = found["name"].lower() if lower else found["name"]
        closes_itself = found["attributes"].endswith("/") and not found["slash"]
        kind: TokenKind = "end" if found["slash"] else "empty" if closes_itself else "start"
        yield Token(kind, place, found.end(), name, tuple(attributes(found, lower)))
        place = found.end()
        if kind == "start" and name in raw_elements:
            closing = re.compile(rf"</{re.escape(name)}[\s/>]", re.IGNORECASE).search(text, place)
            end = closing.start() if closing else len(text)
            if end > place:
                yield Token("other", place, end)
                place = end


def attributes(tag: re.Match[str], lower: bool) -> Iterator[Attribute]:
    """The attributes of a tag."""
    for found in ATTRIBUTE.finditer(tag.string, *tag.span("attributes")):
        group = found.lastgroup if found.lastgroup != "name" else None
        quote = {"double": '"', "single": "'"}.get(group or "", "")
        start, end = found.span(group) if group else (found.end(), found.end())
        name = found["name"].lower() if lower else found["name"]
        yield Attribute(name, html.unescape(tag.string[start:end]), start, end, quote)


def names(words: str) -> Names:
    """A set of names of elements or attributes."""
    return frozenset(words.split())


STRING_BLOCKS: Final = names(
    "blockquote dd div dl dt figcaption figure h1 h2 h3 h4 h5 h6 li ol p table tbody td tfoot th thead tr ul"
)  # in strings of programs; their tags are line breaks


def escape_text(text: str) -> str:
    """Text between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def escape_xml(text: str) -> str:
    """Text between tags, without characters that XML does not have."""
    return escape_text(FORBIDDEN.sub("", text))


def escape_attribute(text: str) -> str:
    """The value of an attribute, in quotes of either kind."""
    return escape_xml(text).replace('"', "&quot;").replace("'", "&#39;")
