"""XML parts as events with their places in the text: well formed, without a document type, and not too deep.

Expat reports where each tag begins, so that a part can be changed without being printed again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple
from xml.parsers import expat

from dragoman.documents.encoding import Encoding, decode
from dragoman.documents.formats.office.archive import unsafe
from dragoman.errors import DocumentError

CHUNK: Final = 1 << 16
MAX_DEPTH: Final = 256
ENCODING: Final = re.compile(rb"""<\?xml[^>]{1,100}?encoding\s*=\s*["']([\w.:-]+)""")
NAMESPACES: Final = {  # the prefixes that tables of elements use, whatever prefix a document has
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
    "http://purl.oclc.org/ooxml/drawingml/main": "a",
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c",
    "http://purl.oclc.org/ooxml/drawingml/chart": "c",
    "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing": "wp",
    "http://purl.oclc.org/ooxml/drawingml/wordprocessingDrawing": "wp",
    "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing": "xdr",
    "http://purl.oclc.org/ooxml/drawingml/spreadsheetDrawing": "xdr",
    "http://schemas.openxmlformats.org/drawingml/2006/picture": "pic",
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "x",
    "http://purl.oclc.org/ooxml/spreadsheetml/main": "x",
    "http://schemas.openxmlformats.org/presentationml/2006/main": "p",
    "http://purl.oclc.org/ooxml/presentationml/main": "p",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m",
    "http://purl.oclc.org/ooxml/officeDocument/math": "m",
    "http://schemas.openxmlformats.org/markup-compatibility/2006": "mc",
    "urn:schemas-microsoft-com:vml": "v",
    "http://schemas.microsoft.com/office/word/2010/wordprocessingShape": "wps",
    "http://schemas.microsoft.com/office/spreadsheetml/2018/threadedcomments": "xtc",
    "http://schemas.openxmlformats.org/package/2006/content-types": "ct",
    "http://purl.org/dc/elements/1.1/": "dc",
    "http://www.w3.org/XML/1998/namespace": "xml",
    "urn:oasis:names:tc:opendocument:xmlns:office:1.0": "office",
    "urn:oasis:names:tc:opendocument:xmlns:text:1.0": "text",
    "urn:oasis:names:tc:opendocument:xmlns:table:1.0": "table",
    "urn:oasis:names:tc:opendocument:xmlns:style:1.0": "style",
    "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0": "draw",
    "urn:oasis:names:tc:opendocument:xmlns:presentation:1.0": "presentation",
    "urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0": "svg",
    "urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0": "fo",
    "urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0": "loext",
    "http://openoffice.org/2009/office": "officeooo",
    "urn:oasis:names:tc:opendocument:xmlns:container": "container",
    "http://www.idpf.org/2007/opf": "opf",
    "http://www.daisy.org/z3986/2005/ncx/": "ncx",
    "http://www.w3.org/2001/04/xmlenc#": "xenc",
}


NO_ATTRIBUTES: Final[Mapping[str, str]] = {}
Kind = Literal["start", "end", "text", "other"]
Found = tuple[Kind, int, str, Mapping[str, str], str]


class Event(NamedTuple):
    """A tag or text, `text[start:end]` of the part. The end tag of an element that closes itself is empty."""

    kind: Kind
    start: int
    end: int
    name: str = ""  # with one of the prefixes above, or with the whole address of another namespace
    attributes: Mapping[str, str] = NO_ATTRIBUTES
    value: str = ""  # the characters of text


def decode_part(data: bytes, name: str) -> tuple[str, Encoding]:
    """The text of an XML part, in the encoding that it declares."""
    declared = ENCODING.search(data, 0, 256)
    return decode(data, name, declared[1].decode("ascii") if declared else None)


def parse(text: str, name: str, doctype: bool = False) -> Iterator[Event]:
    """The events of a part. `doctype` permits a document type, but never one that declares entities."""
    return EventParser(text, name, doctype).parse()


def is_well_formed(text: str, doctype: bool = False) -> bool:
    """Whether a part is well-formed XML; `doctype` permits a document type."""

    def stop(*_: object) -> None:
        raise expat.ExpatError

    data, _, encoding = encode(text)
    parser = expat.ParserCreate(encoding, " ")
    if not doctype:
        parser.StartDoctypeDeclHandler = stop
    try:
        parser.Parse(data, True)
    except expat.ExpatError:
        return False
    return True


def encode(text: str) -> tuple[bytes, int, str]:
    """A text for Expat, the bytes of each character, or 0 if they differ, and the encoding."""
    if text.isascii():
        return text.encode(), 1, "utf-8"
    data = text.encode("utf-16-le", "surrogatepass")
    if len(data) == 2 * len(text):
        return data, 2, "utf-16LE"
    return text.encode("utf-8", "surrogatepass"), 0, "utf-8"


class EventParser:
    """What Expat calls back, with the places of events, a chunk at a time."""

    def __init__(self, text: str, name: str, doctype: bool) -> None:
        self.name, self.doctype, self.depth = name, doctype, 0
        self.size = len(text)
        self.found: list[Found] = []  # events without their ends, which are where the next ones start
        self.data, self.width, encoding = encode(text)
        self.byte, self.character = 0, 0  # the last place, if the width differs
        self.names: dict[str, str] = {}
        self.parser = parser = expat.ParserCreate(encoding, " ")
        parser.buffer_text = False
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartCdataSectionHandler = lambda: self._text("")
        parser.EndCdataSectionHandler = lambda: self._text("")
        parser.StartDoctypeDeclHandler = self._doctype
        parser.EntityDeclHandler = self._entity
        parser.SkippedEntityHandler = lambda *_: self._other("")
        parser.DefaultHandler = self._other

    def feed(self) -> Iterator[None]:
        """Parse all chunks; yield after each."""
        places = [*range(0, len(self.data), CHUNK), len(self.data)]
        for start in places:
            try:
                self.parser.Parse(self.data[start : start + CHUNK], start == places[-1])
            except expat.ExpatError as error:
                raise DocumentError(f"{self.name} is damaged: {error}") from None
            yield

    def _place(self) -> int:
        """The place of the current event in the text."""
        index = self.parser.CurrentByteIndex
        if self.width == 1:
            return index
        if self.width == 2:
            return index >> 1
        if index > self.byte:
            self.character += len(self.data[self.byte : index].decode())
            self.byte = index
        return self.character

    def _name(self, name: str) -> str:
        """A name with a known prefix; each is found once."""
        space, _, local = name.rpartition(" ")
        found = self.names[name] = f"{NAMESPACES.get(space, space)}:{local}" if space else local
        return found

    def _enter(self, name: str) -> str:
        """Begin an element; return its name with a known prefix."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise unsafe(self.name, f"elements are nested more than {MAX_DEPTH} deep")
        return self.names.get(name) or self._name(name)

    def _renamed(self, attributes: dict[str, str]) -> dict[str, str]:
        """Attributes by their names with known prefixes."""
        names = self.names
        return {names.get(key) or self._name(key): value for key, value in attributes.items()}

    def _doctype(self, *_: object) -> None:
        if not self.doctype:
            raise unsafe(self.name, "it declares a document type")
        self._other("")

    def _entity(self, *_: object) -> None:
        raise unsafe(self.name, "it declares entities")

    def parse(self) -> Iterator[Event]:
        """The events, in order."""
        last: Found | None = None
        values: list[str] = []  # of text that comes in several calls
        for _ in self.feed():
            for found in self.found:
                if last is not None:
                    if last[0] == found[0] == "text":
                        values.append(found[4])
                        continue
                    yield Event(last[0], last[1], found[1], last[2], last[3], "".join(values))
                last, values = found, [found[4]] if found[0] == "text" else []
            self.found.clear()
        if last is not None:
            yield Event(last[0], last[1], self.size, last[2], last[3], "".join(values))

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = self._enter(name)
        self.found.append(("start", self._place(), name, self._renamed(attributes), ""))

    def _end(self, name: str) -> None:
        self.depth -= 1
        self.found.append(("end", self._place(), self.names[name], NO_ATTRIBUTES, ""))

    def _text(self, value: str) -> None:
        self.found.append(("text", self._place(), "", NO_ATTRIBUTES, value))

    def _other(self, _: str) -> None:
        self.found.append(("other", self._place(), "", NO_ATTRIBUTES, ""))
