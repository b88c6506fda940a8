"""E-books (.epub): chapters, the table of contents, and the title."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final
from urllib.parse import unquote

from dragoman.documents.formats.html.html import read_text
from dragoman.documents.formats.html.languages import relabel
from dragoman.documents.formats.office.archive import Archive, encrypted, open_archive, unsafe
from dragoman.documents.formats.office.package import ArchiveDocument
from dragoman.documents.formats.office.part import PartReader
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.xml.events import Event, decode_part, parse
from dragoman.documents.languages import LanguageChange, element_edits, tag_edits
from dragoman.documents.markup import names
from dragoman.documents.segment import NO_OPTIONS, ReadOptions
from dragoman.documents.spliced import SplicedText
from dragoman.errors import DocumentError

CHAPTER: Final = "application/xhtml+xml"
NCX: Final = "application/x-dtbncx+xml"  # the table of contents of EPUB 2
NCX_ROOT: Final = re.compile(r"<(?:\w+:)?ncx\s[^<>]*>")
CONTENTS: Final = Rules(strings=names("ncx:text"))
PACKAGE: Final = Rules(strings=names("dc:title dc:subject dc:description"))
ENTITIES: Final = re.compile(r"<!ENTITY\s")
FONTS: Final = re.compile(r"\.(?:otf|ttf|ttc|woff2?)$", re.IGNORECASE)


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> ArchiveDocument:
    """Read an e-book."""
    archive, language = open_archive(data, name), LanguageChange(options.source, options.target)
    declared = replace(PACKAGE, edits=lambda text: element_edits(text, "dc:language", language))
    contents = replace(CONTENTS, edits=lambda text: tag_edits(text, NCX_ROOT, lambda tag: relabel(tag, language)))
    check_encryption(archive)
    roots = [
        e.attributes.get("full-path", "")
        for e in events(archive, "META-INF/container.xml")
        if e.name == "container:rootfile"
    ]
    if not any(roots):
        raise DocumentError(f"{name} is damaged: META-INF/container.xml names no package")
    parts: dict[str, SplicedText] = {}
    for root in filter(None, roots):
        parts[root] = read_xml(archive, root, declared if language else PACKAGE)
        items = dict(book_items(archive, root))
        archive.check(items)
        for part, kind in items.items():
            is_chapter = kind == CHAPTER
            parts[part] = read_chapter(archive, part, language) if is_chapter else read_xml(archive, part, contents)
    return ArchiveDocument(archive, {part: text for part, text in parts.items() if text.slots or text.edits})


def book_items(archive: Archive, root: str) -> Iterator[tuple[str, str]]:
    """The chapters and tables of contents that a package lists, with their media types."""
    for event in events(archive, root):
        if event.name == "opf:item" and event.attributes.get("media-type") in (CHAPTER, NCX):
            address = unquote(event.attributes.get("href", ""))
            part = posixpath.normpath(posixpath.join(posixpath.dirname(root), address))
            if part in archive:
                yield part, event.attributes["media-type"]


def events(archive: Archive, part: str) -> list[Event]:
    """The tags of an XML part."""
    label = f"{archive.name} ({part})"
    return [e for e in parse(decode_part(archive.read(part), label)[0], label, doctype=True) if e.kind == "start"]


def read_xml(archive: Archive, part: str, rules: Rules) -> SplicedText:
    """A part with strings."""
    label = f"{archive.name} ({part})"
    text, encoding = decode_part(archive.read(part), label)
    slots = PartReader(text, label, posixpath.basename(part), rules, doctype=True).read()
    return SplicedText(text, slots, encoding, "xmlcharrefreplace", rules.edits(text))


def read_chapter(archive: Archive, part: str, language: LanguageChange) -> SplicedText:
    """A chapter, which need not be well formed."""
    label = f"{archive.name} ({part})"
    text, encoding = decode_part(archive.read(part), label)
    if ENTITIES.search(text):
        raise unsafe(label, "it declares entities")
    return read_text(text, encoding, language, xml=True)


def check_encryption(archive: Archive) -> None:
    """Reject books with rights management; obfuscated fonts are copied."""
    part = "META-INF/encryption.xml"
    if part in archive:
        for event in events(archive, part):
            if event.name == "xenc:CipherReference" and not FONTS.search(event.attributes.get("URI", "")):
                raise encrypted(archive.name)
