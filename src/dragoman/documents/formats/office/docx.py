"""Word documents (.docx, .docm). Macros are copied, never run."""

from __future__ import annotations

import re
from typing import Final

from dragoman.documents.formats.office.archive import open_archive
from dragoman.documents.formats.office.drawing import ALTERNATIVE_TEXTS, DRAWING_PARTS
from dragoman.documents.formats.office.package import ArchiveDocument, read_parts, rules_by_type
from dragoman.documents.formats.office.rules import Role, Rules, names
from dragoman.documents.formats.office.tree import Element

TRANSLATED_FIELDS: Final = names("HYPERLINK TOC INDEX")  # the results of others are generated: numbers, dates

CODE_STYLES: Final = names("VerbatimChar SourceCode HTMLCode HTMLTypewriter HTMLSample HTMLKeyboard HTMLPreformatted")


def is_code(element: Element) -> bool:
    """Whether a run or a paragraph has a style for code."""
    properties = element.find("w:rPr" if element.name == "w:r" else "w:pPr")
    style = properties and properties.find("w:rStyle" if element.name == "w:r" else "w:pStyle")
    return style is not None and style.attributes.get("w:val") in CODE_STYLES


def field_part(element: Element) -> Role:
    """Whether an element begins, separates or ends a field."""
    match element.attributes.get("w:fldCharType") if element.name == "w:fldChar" else None:
        case "begin":
            return "begin"
        case "separate":
            return "separate"
        case "end":
            return "end"
    return ""


def field_code(element: Element) -> str:
    """The instruction of a field."""
    if element.name == "w:instrText":
        return "".join(child.value for child in element.children)
    return element.attributes.get("w:instr", " ") if element.name == "w:fldSimple" else ""


def is_translated_field(code: str) -> bool:
    """Whether people read the result of a field as text."""
    return code.split()[:1] != [] and code.split()[0].upper() in TRANSLATED_FIELDS


RULES: Final = Rules(
    paragraphs=names("w:p"),
    runs=names("w:r"),
    properties=names("w:rPr w:sdtPr w:sdtEndPr w:smartTagPr w:customXmlPr"),
    texts=names("w:t"),
    containers=names("w:hyperlink w:ins w:moveTo w:smartTag w:sdt w:sdtContent w:fldSimple w:bdo w:dir w:customXml"),
    breaks=names("w:br w:cr w:tab w:ptab"),
    characters={"w:noBreakHyphen": "\u2011"},
    dropped=names("w:proofErr w:lastRenderedPageBreak w:softHyphen"),
    protected=names("m:oMath w:ruby"),
    ranges={
        "w:bookmarkStart": "w:bookmarkEnd",
        "w:commentRangeStart": "w:commentRangeEnd",
        "w:permStart": "w:permEnd",
        "w:moveToRangeStart": "w:moveToRangeEnd",
    },
    range_ids=names("w:id"),
    attributes={"wp:docPr": ALTERNATIVE_TEXTS},
    insignificant=re.compile(
        r'<(?:\w+:)?(?:lang|noProof)(?:\s[^>]*)?/>|<(?:\w+:)?rFonts\s+(?:\w+:)?hint="\w+"\s*/>|\s(?:\w+:)?hint="\w+"'
    ),
    strips=True,
    preserve=True,
    is_code=is_code,
    field_part=field_part,
    field_code=field_code,
    is_translated_field=is_translated_field,
)
MAIN: Final = r"wordprocessingml\.(?:document|template)\.main\+xml$|ms-word\.\w+\.macroEnabled\w*\.main\+xml$"
PARTS: Final = {
    MAIN: RULES,
    r"wordprocessingml\.(?:header|footer|footnotes|endnotes|comments)\+xml$": RULES,
    **DRAWING_PARTS,
}


def read(data: bytes, name: str) -> ArchiveDocument:
    """Read text, tables, text boxes, headers, footers, notes, comments, charts and diagrams."""
    archive = open_archive(data, name)
    return read_parts(archive, rules_by_type(archive, PARTS, MAIN, "a Word document"))
