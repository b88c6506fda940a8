"""PowerPoint presentations (.pptx, .pptm). Macros are copied, never run."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dragoman.documents.formats.office.archive import open_archive
from dragoman.documents.formats.office.drawing import (
    DRAWING,
    DRAWING_PARTS,
    default_languages,
    with_drawing_languages,
)
from dragoman.documents.formats.office.package import ArchiveDocument, read_parts, rules_by_type
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.xml.tree import Element
from dragoman.documents.languages import LanguageChange
from dragoman.documents.markup import names
from dragoman.documents.segment import NO_OPTIONS, ReadOptions


def is_placeholder(shape: Element) -> bool:
    """Whether a shape of a layout only says what a slide has there ("Click to edit the title")."""
    return any(element.name == "p:ph" for element in shape.walk())


LAYOUT: Final = replace(DRAWING, inspected=names("p:sp"), is_skipped=is_placeholder)
MAIN: Final = (
    r"presentationml\.(?:presentation|slideshow|template)\.main\+xml$|ms-powerpoint\.\w+\.macroEnabled\.main\+xml$"
)
PARTS: Final = {
    r"presentationml\.(?:slide|notesSlide)\+xml$": DRAWING,
    r"presentationml\.(?:slideMaster|slideLayout)\+xml$": LAYOUT,
    r"presentationml\.comments\+xml$": Rules(strings=names("p:text")),
    r"ms-powerpoint\.comments\+xml$": DRAWING,
    **DRAWING_PARTS,
}


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> ArchiveDocument:
    """Read slides, notes, comments, charts and diagrams, and the fixed text of masters and layouts."""
    archive, parts = open_archive(data, name), PARTS
    if language := LanguageChange(options.source, options.target):
        parts = with_drawing_languages(PARTS, language) | {MAIN: default_languages(language)}
    return read_parts(archive, rules_by_type(archive, parts, MAIN, "a presentation"), options.on_segment)
