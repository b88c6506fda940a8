"""XML documents with two languages: elements with their places in the text, so that new text can be spliced in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from dragoman.documents.edits import apply_edits
from dragoman.documents.encoding import Encoding, decode
from dragoman.documents.markup import Token, escape_attribute, scan
from dragoman.errors import DocumentError

DECLARED: Final = re.compile(rb"""<\?xml[^>]{1,100}encoding\s*=\s*["']([\w.:-]+)""")
ENTITIES: Final = re.compile(r"<!ENTITY\s", re.IGNORECASE)


@dataclass
class Element:
    """An element: its start tag, the place of its content, and its end in the text."""

    tag: Token
    end: int = 0
    content_end: int = 0
    children: list[Element] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name without its prefix."""
        return local_name(self.tag.name)

    @property
    def start(self) -> int:
        """The place of the start tag."""
        return self.tag.start

    def get(self, *names: str) -> str:
        """The value of the first of these attributes that is there, or an empty string."""
        return next((value for name in names if (value := self.tag.get(name)) is not None), "")

    def find(self, name: str) -> Element | None:
        """The first child of that name."""
        return next((child for child in self.children if child.name == name), None)

    def content(self, text: str) -> str:
        """What is between the tags."""
        return text[self.tag.end : self.content_end]

    def walk(self) -> Iterator[Element]:
        """The element and everything inside it, in order."""
        pending = [self]
        while pending:
            element = pending.pop()
            yield element
            pending += reversed(element.children)


def local_name(name: str) -> str:
    """A name without its namespace prefix."""
    return name.rpartition(":")[2]


def read_xml(data: bytes, name: str) -> tuple[str, Encoding, Element]:
    """The text of an XML file, its encoding, and its root; raise if it is not well formed or declares entities."""
    declared = DECLARED.search(data, 0, 200)
    text, encoding = decode(data, name, declared[1].decode("ascii") if declared else None)
    if ENTITIES.search(text):
        raise entities_error(name)
    check_well_formed(data, name)
    return text, encoding, parse_tree(text, name)


def entities_error(name: str) -> DocumentError:
    """The error for a file that declares entities."""
    return DocumentError(
        f"{name} declares XML entities, which is not supported because they can be harmful; replace them by their text",
        code="unsafe_document",
    )


def check_well_formed(data: bytes, name: str) -> None:
    """Raise if a file is not well-formed XML."""
    from lxml import etree

    try:
        etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False))
    except (etree.XMLSyntaxError, ValueError) as error:
        why = error.msg if isinstance(error, etree.XMLSyntaxError) else error
        raise DocumentError(f"{name} is not well-formed XML: {why}", code="damaged_document") from None


def parse_tree(text: str, name: str) -> Element:
    """The elements of a well-formed document."""
    top = Element(Token("start", 0, 0))
    open_elements = [top]
    for token in scan(text):
        if token.kind in ("start", "empty"):
            element = Element(token, token.end, token.end)
            open_elements[-1].children.append(element)
            if token.kind == "start":
                open_elements.append(element)
        elif token.kind == "end" and len(open_elements) > 1:
            element = open_elements.pop()
            element.content_end, element.end = token.start, token.end
    if len(open_elements) != 1 or not top.children:
        raise DocumentError(f"{name} is not well-formed XML", code="damaged_document")
    return top.children[0]


def with_attributes(text: str, tag: Token, values: dict[str, str]) -> str:
    """A start tag with new values of attributes; one that it lacks is added at its end."""
    raw, edits = text[tag.start : tag.end], []
    closing = len(raw) - (2 if raw.endswith("/>") else 1)
    while closing and raw[closing - 1].isspace():
        closing -= 1
    for name, value in values.items():
        found = next((one for one in tag.attributes if one.name == name), None)
        if found is None:
            edits.append((closing, closing, f' {name}="{escape_attribute(value)}"'))
        else:
            edits.append((found.start - tag.start, found.end - tag.start, escape_attribute(value)))
    return apply_edits(raw, edits)


def as_start_tag(raw: str) -> str:
    """A tag that closes itself as a start tag."""
    return raw[:-2].rstrip() + ">" if raw.endswith("/>") else raw


def indent_before(text: str, place: int) -> str:
    """The line break and the white space before a place, if nothing else is on its line."""
    start = place
    while start and text[start - 1] in " \t":
        start -= 1
    if start and text[start - 1] == "\n":
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
        return text[start:place]
    return ""


def named(elements: Sequence[Element], *names: str) -> list[Element]:
    """The elements with one of these names."""
    return [element for element in elements if element.name in names]
