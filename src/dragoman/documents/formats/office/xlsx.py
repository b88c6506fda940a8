"""Excel workbooks (.xlsx, .xlsm). Macros are copied, never run.

Texts of cells are translated; formulas, numbers, dates and names of sheets are not. A text that a formula compares
with, or that names the column of a table, keeps its words, because formulas would no longer find it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from dragoman.documents.formats.office.archive import Archive, open_archive
from dragoman.documents.formats.office.drawing import DRAWING, DRAWING_PARTS, with_drawing_languages
from dragoman.documents.formats.office.formula_texts import LITERAL, FormulaTexts, keep_formula_texts
from dragoman.documents.formats.office.package import ArchiveDocument, content_types, read_parts, rules_by_type
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.xml.events import decode_part
from dragoman.documents.languages import LanguageChange
from dragoman.documents.markup import names
from dragoman.documents.segment import NO_OPTIONS, ReadOptions

STRINGS: Final = Rules(
    paragraphs=names("x:si x:is"),
    runs=names("x:r"),
    properties=names("x:rPr"),
    texts=names("x:t"),
    dropped=names("x:rPh x:phoneticPr"),  # the pronunciation of the old words
    trims=False,
    newlines=True,
    preserve=True,
)
MAIN: Final = r"spreadsheetml\.(?:sheet|template)\.main\+xml$|ms-excel\.\w+\.macroEnabled\.main\+xml$"
SHEET: Final = r"spreadsheetml\.worksheet\+xml$"
PARTS: Final = {
    r"spreadsheetml\.sharedStrings\+xml$": STRINGS,
    SHEET: STRINGS,
    r"spreadsheetml\.comments\+xml$": replace(STRINGS, paragraphs=names("x:text")),
    r"ms-excel\.threadedcomments\+xml$": Rules(strings=names("xtc:text")),
    r"officedocument\.drawing\+xml$": DRAWING,
    **DRAWING_PARTS,
}
FORMULA: Final = re.compile(r"<(?:\w+:)?(?:f|formula[12]?)(?:\s[^<>]*)?>([^<]+)<")
COLUMN: Final = re.compile(r'<(?:\w+:)?(?:tableColumn|cacheField)\s[^<>]*?\bname="([^"]*)"')
INLINE: Final = "inlineStr"


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> ArchiveDocument:
    """Read the texts of cells, comments, charts and shapes."""
    archive, language = open_archive(data, name), LanguageChange(options.source, options.target)
    parts = with_drawing_languages(PARTS, language) if language else PARTS
    rules = rules_by_type(archive, parts, MAIN, "a workbook")
    types = content_types(archive)
    kept = FormulaTexts()
    for part in archive.parts:
        kind = types.get(part, "")
        if re.search(SHEET, kind):
            text = read_text(archive, part)
            kept.update(literals(text))
            if INLINE not in text:  # sheets are large
                rules.pop(part, None)
        elif re.search(r"spreadsheetml\.(?:table|pivotCacheDefinition)\+xml$", kind):
            kept.update(html.unescape(found[1]) for found in COLUMN.finditer(read_text(archive, part)))
    document = read_parts(archive, rules)
    return replace(document, parts={name: keep_formula_texts(part, kept) for name, part in document.parts.items()})


def read_text(archive: Archive, part: str) -> str:
    """The XML of a part."""
    return decode_part(archive.read(part), f"{archive.name} ({part})")[0]


def literals(sheet: str) -> Iterator[str]:
    """The texts in the formulas and the lists of permitted values of a sheet."""
    for formula in FORMULA.finditer(sheet):
        for literal in LITERAL.finditer(html.unescape(formula[1])):
            text = literal[1].replace('""', '"')
            yield text
            yield from text.split(",")
