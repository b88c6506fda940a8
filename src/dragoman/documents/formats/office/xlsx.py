"""Excel workbooks (.xlsx, .xlsm). Macros are copied, never run.

Texts of cells are translated; formulas, numbers, dates and names of sheets are not. A text that a formula compares
with, or that names the column of a table, keeps its words, because formulas would no longer find it. The texts that
formulas had are removed, so that programs compute them from the translated cells.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from dragoman.documents.formats.office.archive import open_archive
from dragoman.documents.formats.office.cell_copies import with_slots
from dragoman.documents.formats.office.drawing import DRAWING, DRAWING_PARTS, with_drawing_languages
from dragoman.documents.formats.office.formula_texts import LITERAL, FormulaTexts, keep_formula_texts
from dragoman.documents.formats.office.package import ArchiveDocument, content_types, read_parts, rules_by_type
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.sheets import (
    after_cells,
    has_formulas,
    recalculation,
    sheet_slots,
    stale_results,
)
from dragoman.documents.formats.office.xml.events import decode_part
from dragoman.documents.languages import LanguageChange
from dragoman.documents.markup import names
from dragoman.documents.segment import NO_OPTIONS, ReadOptions
from dragoman.documents.spliced import SplicedText

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
SHEET: Final = r"spreadsheetml\.(?:work|chart)sheet\+xml$"
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
CRITERION: Final = re.compile(r'<(?:\w+:)?customFilter\s[^<>]*?\bval="([^"]*)"')
TABLE: Final = r"spreadsheetml\.(?:table|pivotCacheDefinition)\+xml$"
INLINE: Final = "inlineStr"


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> ArchiveDocument:
    """Read the texts of cells, comments, charts and shapes, and what sheets have besides."""
    archive, language = open_archive(data, name), LanguageChange(options.source, options.target)
    parts = with_drawing_languages(PARTS, language) if language else PARTS
    rules = rules_by_type(archive, parts, MAIN, "a workbook")
    types = content_types(archive)
    kept = FormulaTexts()
    sheets = dict[str, SplicedText]()
    for part in archive.parts:
        is_sheet = re.search(SHEET, types.get(part, "")) is not None
        if not is_sheet and not re.search(TABLE, types.get(part, "")):
            continue
        text, encoding = decode_part(archive.read(part), f"{name} ({part})")
        start = after_cells(text)
        for pattern in (COLUMN, CRITERION):
            kept.update(html.unescape(found[1]) for found in pattern.finditer(text, start))
        if is_sheet:
            kept.update(literals(text))
            if INLINE not in text:  # sheets are large
                rules.pop(part, None)
            if has_formulas(text):
                rules |= {main: Rules(edits=recalculation) for main in types if re.search(MAIN, types[main])}
        slots, stale = list(sheet_slots(text, start, PurePosixPath(part).stem)), list(stale_results(text))
        if slots or stale:
            sheets[part] = SplicedText(text, slots, encoding, "xmlcharrefreplace", stale)
    document = read_parts(archive, rules)
    return replace(document, parts=dict(with_sheets(document, sheets, kept)))


def with_sheets(
    document: ArchiveDocument, sheets: Mapping[str, SplicedText], kept: FormulaTexts
) -> Iterator[tuple[str, SplicedText]]:
    """The parts of a workbook, with what sheets have besides cells, in the order of the archive."""
    cells = {segment.text for segment in document.segments}
    for part in document.archive.parts:
        own, sheet = document.parts.get(part), sheets.get(part)
        if sheet is not None:
            own = with_slots(replace(sheet, slots=() if own is None else own.slots), sheet.slots, cells)
        if own is not None and (own.slots or own.edits):
            yield part, keep_formula_texts(own, kept)


def literals(sheet: str) -> Iterator[str]:
    """The texts in the formulas and the lists of permitted values of a sheet."""
    for formula in FORMULA.finditer(sheet):
        for literal in LITERAL.finditer(html.unescape(formula[1])):
            text = literal[1].replace('""', '"')
            yield text
            yield from text.split(",")
