"""Large XML documents with two languages, read in chunks of whole elements."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final
from xml.parsers import expat

from dragoman.documents.chunks import CHUNK_BYTES, open_document
from dragoman.documents.encoding import Encoding, find_mark
from dragoman.documents.formats.localization.xml_tree import (
    DECLARED,
    Element,
    entities_error,
    local_name,
)
from dragoman.documents.markup import scan
from dragoman.errors import DocumentError

START_BYTES: Final = 200  # where the encoding is declared
MAX_DEPTH: Final = 256


def utf_encoding(start: bytes) -> Encoding | None:
    """The encoding of a file that begins so; None if it is not UTF-8 or UTF-16, which can be cut anywhere."""
    mark, encoding = find_mark(start)
    if not encoding:
        declared = DECLARED.search(start)
        encoding = declared[1].decode("ascii").lower() if declared else "utf-8"
    return Encoding(encoding, mark) if encoding in ("utf-8", "utf-16-le", "utf-16-be") else None


def check_large(path: Path, name: str, start: Callable[[str, dict[str, str]], None]) -> None:
    """Raise if a file is not well-formed XML, declares entities or is too deep; `start` gets each start tag."""
    depth = 0

    def enter(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise DocumentError(f"{name} is nested more than {MAX_DEPTH} deep", code="damaged_document")
        start(tag, attributes)

    def leave(_: str) -> None:
        nonlocal depth
        depth -= 1

    def declare(*_: object) -> None:
        raise entities_error(name)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = enter, leave, declare
    try:
        with open_document(path) as file:
            while block := file.read(CHUNK_BYTES):
                parser.Parse(block, False)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise DocumentError(f"{name} is not well-formed XML: {error}", code="damaged_document") from None


def read_texts(path: Path, name: str, encoding: Encoding) -> Iterator[str]:
    """The text of a file, block by block, without its byte order mark."""
    decoder, at = codecs.getincrementaldecoder(encoding.name)(), len(encoding.mark)
    with open_document(path) as file:
        file.seek(at)
        while True:
            block = file.read(CHUNK_BYTES)
            try:
                yield decoder.decode(block, final=not block)
            except UnicodeDecodeError:
                raise DocumentError(
                    f"{name} is not valid {encoding.name} near byte {at:,}; save it as UTF-8",
                    code="unsupported_encoding",
                ) from None
            if not block:
                return
            at += len(block)


def split_at(texts: Iterable[str], name: str) -> Iterator[tuple[str, list[Element]]]:
    """A well-formed document in chunks that end after an element of that name, each with the elements in it."""
    rest, least = "", 0
    for text in texts:
        rest += text
        if len(rest) < least:
            continue
        elements = list(whole_elements(rest, name))
        if elements:
            end = elements[-1].end
            yield rest[:end], elements
            rest = rest[end:]
        least = 0 if elements else 2 * len(rest)  # a huge element is not read again for every block
    yield rest, list(whole_elements(rest, name))


def whole_elements(text: str, name: str) -> Iterator[Element]:
    """The complete elements of that name, which are not nested, in a text that may break off anywhere."""
    opened: list[Element] = []
    for token in scan(text):
        if token.kind in ("start", "empty") and (opened or local_name(token.name) == name):
            element = Element(token, token.end, token.end)
            if opened:
                opened[-1].children.append(element)
            if token.kind == "start":
                opened.append(element)
            elif not opened:
                yield element
        elif token.kind == "end" and opened:
            element = opened.pop()
            element.content_end, element.end = token.start, token.end
            if not opened:
                yield element
