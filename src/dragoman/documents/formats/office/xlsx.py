"""Excel workbooks (.xlsx, .xlsm). Macros are copied, never run.

Texts of cells are translated; formulas, numbers, dates and names of sheets are not. A text that a formula compares
with, or that names the column of a table, keeps its words, because formulas would no longer find it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from dragoman.documents.formats.office.archive import Archive, open_archive
from dragoman.documents.formats.office.drawing import DRAWING, DRAWING_PARTS, with_drawing_languages
from dragoman.documents.formats.office.package import ArchiveDocument, content_types, read_parts, rules_by_type
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.xml_events import decode_part
from dragoman.documents.languages import LanguageChange
from dragoman.documents.markup import names
from dragoman.documents.segment import NO_OPTIONS, ReadOptions
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.transfer.placeholders import LETTER

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
FORMULA: Final = re.compile(r"<(?:\w+:)?(?:f|formula[12]?)(?:\s[^>]*)?>([^<]+)<")
LITERAL: Final = re.compile(r'"((?:[^"]|"")*)"')
COLUMN: Final = re.compile(r'<(?:\w+:)?(?:tableColumn|cacheField)\s[^>]*?\bname="([^"]*)"')
INLINE: Final = "inlineStr"
OPERATOR: Final = re.compile(r"<>|[<>]=?|=")
ESCAPE: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
MAX_WILDCARDS, MAX_PATTERNS = 3, 100  # more would take hostile files long
WILDCARD: Final = re.compile(r"~[*?~]|[*?]")


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> ArchiveDocument:
    """Read the texts of cells, comments, charts and shapes."""
    archive, language = open_archive(data, name), LanguageChange(options.source, options.target)
    parts = with_drawing_languages(PARTS, language) if language else PARTS
    rules = rules_by_type(archive, parts, MAIN, "a workbook")
    types = content_types(archive)
    kept = KeptTexts()
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
    return replace(document, parts={name: keep(part, kept) for name, part in document.parts.items()})


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


class KeptTexts:
    """Texts that formulas refer to, compared as spreadsheets do: without case, and with the wildcards * and ?.

    A criterion such as "<>done" refers to "done".
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts: set[str] = set()
        self.patterns: dict[str, re.Pattern[str]] = {}
        self.update(texts)

    def update(self, texts: Iterable[str]) -> None:
        """Add texts of formulas, or names of columns."""
        for text in texts:
            for one in {text, OPERATOR.sub("", text, count=1) if OPERATOR.match(text.strip()) else text}:
                self.texts.add(fold(one))
                short = one.count("*") <= MAX_WILDCARDS and len(self.patterns) < MAX_PATTERNS
                if short and WILDCARD.search(one) and LETTER.search(one):
                    self.patterns[fold(one)] = re.compile(criterion(fold(one)), re.DOTALL)

    def __contains__(self, text: str) -> bool:
        text = fold(text)
        return text in self.texts or any(pattern.fullmatch(text) for pattern in self.patterns.values())


def fold(text: str) -> str:
    """A text without differences that formulas ignore: case, white space, and how characters are escaped."""
    return " ".join(ESCAPE.sub(lambda found: chr(int(found[1], 16)), text).split()).casefold()


def criterion(text: str) -> str:
    """The regular expression of a text with wildcards; `~*` is an asterisk. It never goes back behind an asterisk."""
    parts, place = [""], 0
    for found in WILDCARD.finditer(text):
        parts[-1] += re.escape(text[place : found.start()])
        if found[0] == "*":
            parts.append("")
        else:
            parts[-1] += "." if found[0] == "?" else re.escape(found[0][1])
        place = found.end()
    parts[-1] += re.escape(text[place:])
    first, *between, last = parts if len(parts) > 1 else (parts[0], "")
    end = f".*{last}" if len(parts) > 1 else ""
    return first + "".join(f"(?>.*?{part})" for part in between) + end


def keep(part: SplicedText, kept: KeptTexts) -> SplicedText:
    """The part with segments that formulas refer to left as they are."""

    def mark(slot: Slot) -> Slot:
        if slot.segment.text in kept:
            return replace(slot, segment=replace(slot.segment, translate=False))
        return slot

    return replace(part, slots=[mark(slot) for slot in part.slots])
