"""Word documents (.docx, .docm). Macros are copied, never run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from dragoman.documents.formats.office.archive import open_archive
from dragoman.documents.formats.office.drawing import (
    ALTERNATIVE_TEXTS,
    DRAWING_PARTS,
    LINKS,
    with_drawing_languages,
)
from dragoman.documents.formats.office.package import ArchiveDocument, read_parts, rules_by_type
from dragoman.documents.formats.office.rules import Role, Rules
from dragoman.documents.formats.office.xml.tree import Element
from dragoman.documents.languages import (
    LanguageChange,
    Script,
    attribute,
    primary,
    script_of,
    set_attribute,
    tag_edits,
)
from dragoman.documents.markup import names
from dragoman.documents.segment import NO_OPTIONS, ReadOptions

TRANSLATED_FIELDS: Final = names("HYPERLINK TOC INDEX")  # the results of others are generated: numbers, dates
TOC_ENTRY: Final = re.compile(r"[^\W\d_].*\n")  # LibreOffice has heading, tab and number in one PAGEREF field
SHAPES: Final = names("v:shape v:group v:rect v:roundrect v:oval v:image v:line v:polyline v:arc v:curve")  # of VML
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


def is_translated_field(code: str, result: str) -> bool:
    """Whether people read the result of a field as text."""
    name = code.split()[0].upper() if code.strip() else ""
    return name in TRANSLATED_FIELDS or (name == "PAGEREF" and TOC_ENTRY.search(result) is not None)


def insignificant(languages: str) -> re.Pattern[str]:
    """What does not make runs look different; `languages` are the attributes of those that do not matter."""
    return re.compile(
        rf'<(?:\w+:)?(?:noProof|lang(?:{languages})?)\s*/>|<(?:\w+:)?rFonts\s+(?:\w+:)?hint="\w+"\s*/>|'
        r'\s(?:\w+:)?hint="\w+"'
    )


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
    attributes={
        "wp:docPr": ALTERNATIVE_TEXTS,
        "v:textpath": names("string"),  # a watermark
        "w:hyperlink": names("w:tooltip"),
        "w:listItem": names("w:displayText"),
        **dict.fromkeys(SHAPES, names("alt")),
        **LINKS,
    },
    insignificant=insignificant(r"\s[^<>]*"),
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


LANGUAGE: Final = re.compile(r"<(?:\w+:)?(?:lang|themeFontLang)\s[^<>]*>")
LANGUAGE_ATTRIBUTES: Final[Mapping[Script, str]] = {"western": "val", "asian": "eastAsia", "complex": "bidi"}


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> ArchiveDocument:
    """Read text, tables, text boxes, headers, footers, notes, comments, charts and diagrams."""
    archive = open_archive(data, name)
    return read_parts(
        archive, rules_by_type(archive, with_languages(options), MAIN, "a Word document"), options.on_segment
    )


def with_languages(options: ReadOptions) -> dict[str, Rules]:
    """The rules of all parts; runs and styles in the language of the source get that of the translation."""
    language = LanguageChange(options.source, options.target)
    if not language:
        return PARTS

    @lru_cache(maxsize=1024)  # most runs have one of a few tags
    def change(tag: str) -> str:
        prefix = tag[1:].partition(":")[0] + ":" if ":" in tag.split()[0] else ""
        before, after = (prefix + LANGUAGE_ATTRIBUTES[script_of(code)] for code in (language.source, language.target))
        if not language.declares_source(attribute(tag, before)):
            return tag
        return set_attribute(tag, after, language.regional_tag)

    own = LANGUAGE_ATTRIBUTES[script_of(language.source)]
    word = replace(
        RULES,
        relabel=lambda run: LANGUAGE.sub(lambda tag: change(tag[0]), run),
        # a quotation in another language keeps its run
        insignificant=insignificant(rf'(?![^<>]*\b{own}="(?!{primary(language.source)}\b))\s[^<>]*'),
    )
    found = {kind: word if rules is RULES else rules for kind, rules in PARTS.items()}
    styles = Rules(edits=lambda text: tag_edits(text, LANGUAGE, change))
    return with_drawing_languages(found, language) | {r"wordprocessingml\.(?:styles|settings)\+xml$": styles}
