"""What the sheets of Excel have besides cells: page headers and footers, messages, tooltips, results of formulas."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from dragoman.documents.edits import Edit
from dragoman.documents.formats.office.cell_copies import find_attributes, find_copies
from dragoman.documents.formats.office.part import escape_value
from dragoman.documents.languages import set_attribute, tag_edits
from dragoman.documents.markup import escape_xml, names
from dragoman.documents.segment import Segment, SegmentBuilder
from dragoman.documents.spliced import Slot
from dragoman.documents.transfer.masks import LETTER

HEADER: Final = re.compile(r"<(?:\w+:)?((?:odd|even|first)(?:Header|Footer))(?:\s[^<>]*+)?>([^<]{1,2000})</")
HEADER_CODE: Final = re.compile(
    r"""&amp;(?:
      (?P<section>[LCR]) | (?P<ampersand>&amp;) | (?P<number>P(?:[+-]\d+)?|N) | (?P<value>[DTAFZ])
    | K(?:[0-9A-F]{6}|\d\d[+-]\d{3}) | (?:"|&quot;)[^"&<]*(?:"|&quot;) | (?P<size>\d{1,3}) | [^&<]?
    )""",
    re.VERBOSE | re.IGNORECASE,
)  # of formats, pages, dates, names and pictures
MAX_HEADER: Final = 255
MESSAGE_TAGS: Final = re.compile(r"<(?:\w+:)?(?:dataValidation|hyperlink)\s[^<>]*>")
MAX_MESSAGE: Final[Mapping[str, int]] = {  # characters that Excel reads; it repairs files with longer ones
    "promptTitle": 32, "prompt": 255, "errorTitle": 32, "error": 255, "tooltip": 255
}  # fmt: skip
COPY_TAGS: Final = re.compile(r"<(?:\w+:)?(?:filter|tableColumn)\s[^<>]*>")
COPIES: Final = names("val totalsRowLabel")
NEWLINE: Final = re.compile("_x000a_", re.IGNORECASE)

CELL_FORMULA: Final = re.compile(r"<(?:\w+:)?f[\s>/]")
TEXT_RESULT: Final = re.compile(
    r'<(?:\w+:)?c(?=\s)(?=[^<>]*?\st="str")[^<>]*+>\s*<(?:\w+:)?f(?:\s[^<>]*+)?>(?:[^<]*+</(?:\w+:)?f>)?\s*'
    r"(?P<value><(?:\w+:)?v(?:\s[^<>]*+)?>[^<]*+</(?:\w+:)?v>)"
)
CALCULATION: Final = re.compile(r"<(?:\w+:)?calcPr(?:\s[^<>]*)?>")
BEFORE_CALCULATION: Final = re.compile(
    r"(?:</|<(?=[^<>]*/>))(?P<prefix>(?:\w+:)?)(?:sheets|functionGroups|externalReferences|definedNames)(?:\s[^<>]*|/)?>"
)


def after_cells(text: str) -> int:
    """Where the cells of a sheet, which are large, have ended; 0 for a part without cells."""
    return max(0, text.rfind("sheetData>"), text.rfind("sheetData/>"))


def sheet_slots(text: str, start: int, label: str) -> Iterator[Slot]:
    """The texts of a sheet or a table after its cells; `label` begins the keys of their segments."""
    for found in HEADER.finditer(text, start):
        yield from header_slots(text, *found.span(2), f"{label} {found[1]}")
    for name, attribute in find_attributes(text, start, MESSAGE_TAGS, frozenset(MAX_MESSAGE)):
        if LETTER.search(attribute.value):
            raw = text[attribute.start : attribute.end]
            segment = Segment(NEWLINE.sub("\n", attribute.value), key=f"{label} {name} {attribute.name}")
            escape = escape_newlines if NEWLINE.search(raw) else escape_value
            fitted = partial(fit, raw=raw, limit=MAX_MESSAGE[attribute.name])
            yield Slot(attribute.start, attribute.end, segment, escape, fitted)
    yield from find_copies(text, start, COPY_TAGS, COPIES, label)


def fit(new: str, raw: str, limit: int) -> str:
    """The new markup of a text; the old one if the new text has more characters than the limit."""
    return new if len(html.unescape(new)) <= limit else raw


def escape_newlines(text: str) -> str:
    """The value of an attribute, with line breaks as Excel writes them."""
    return escape_value(text).replace("&#10;", "_x000a_")


def header_slots(text: str, start: int, end: int, key: str) -> Iterator[Slot]:
    """The left, central and right section of a header or footer."""
    found = list(HEADER_CODE.finditer(text, start, end))
    marks = [one for one in found if one["section"]]
    room = max(0, MAX_HEADER - len(html.unescape(text[start:end]))) // (len(marks) + 1)
    starts = [start, *(one.end() for one in marks)]
    for first, last in zip(starts, [*(one.start() for one in marks), end], strict=True):
        yield from section_slot(text, first, last, [one for one in found if first <= one.start() < last], key, room)


def section_slot(
    text: str, start: int, end: int, codes: Sequence[re.Match[str]], key: str, room: int
) -> Iterator[Slot]:
    """The slot of a section, if it has words, without the formats around it; it may grow by `room` characters."""
    size = None
    while codes and codes[0].start() == start and is_format(codes[0]):
        start, size, codes = codes[0].end(), codes[0]["size"], codes[1:]
    while codes and codes[-1].end() == end and is_format(codes[-1]):
        end, codes = codes[-1].start(), codes[:-1]
    builder, place, has_letters = SegmentBuilder(), start, False
    for code in [*codes, None]:
        words = html.unescape(text[place : end if code is None else code.start()])
        has_letters = has_letters or LETTER.search(words) is not None
        builder.add_text(words)
        if code is None:
            break
        if code["ampersand"]:
            builder.add_text("&")
        elif is_format(code):
            builder.add_point(code[0], name="format")
        else:
            builder.add_protected(html.unescape(code[0]), code[0], name="number" if code["number"] else "value")
        place = code.end()
    raw = text[start:end]

    def wrap(new: str) -> str:
        found = fit(new, raw, len(html.unescape(raw)) + room)
        return f" {found}" if size and found[:1].isdigit() else found  # the size would get another digit

    if has_letters:
        yield Slot(start, end, builder.build(key), escape_header, wrap)


def is_format(code: re.Match[str]) -> bool:
    """Whether a code stands for no text: fonts, sizes, colors, pictures."""
    return not (code["ampersand"] or code["number"] or code["value"])


def escape_header(text: str) -> str:
    """Text of a header or footer."""
    return escape_xml(text.replace("&", "&&"))


def has_formulas(sheet: str) -> bool:
    """Whether a sheet has cells with formulas."""
    return ("<f" in sheet or ":f" in sheet) and CELL_FORMULA.search(sheet) is not None


def stale_results(sheet: str) -> Iterator[Edit]:
    """Edits that remove the texts that formulas had; programs that do not compute them again would show them."""
    for found in TEXT_RESULT.finditer(sheet) if 't="str"' in sheet else ():
        yield *found.span("value"), ""


def recalculation(workbook: str) -> list[Edit]:
    """An edit after which Excel computes all formulas again when it opens a workbook."""
    if CALCULATION.search(workbook):
        return tag_edits(workbook, CALCULATION, lambda tag: set_attribute(tag, "fullCalcOnLoad", "1"))
    *_, last = [None, *BEFORE_CALCULATION.finditer(workbook)]
    return [] if last is None else [(last.end(), last.end(), f'<{last["prefix"]}calcPr fullCalcOnLoad="1"/>')]
