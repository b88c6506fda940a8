"""OpenDocument texts, sheets and presentations (.odt, .ods, .odp), and their flat variants (.fodt, .fods, .fodp)."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from dragoman.documents.edits import Edit
from dragoman.documents.formats.office.archive import Archive, encrypted, open_archive
from dragoman.documents.formats.office.cell_copies import find_copies, with_slots
from dragoman.documents.formats.office.formula_texts import LITERAL, FormulaTexts, keep_formula_texts
from dragoman.documents.formats.office.package import read_parts
from dragoman.documents.formats.office.part import read_part
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.xml.events import Event, decode_part, parse
from dragoman.documents.formats.office.xml.tree import Element
from dragoman.documents.languages import (
    LanguageChange,
    Script,
    attribute,
    element_edits,
    script_of,
    set_attribute,
    tag_edits,
)
from dragoman.documents.markup import names
from dragoman.documents.segment import NO_OPTIONS, Document, ReadOptions
from dragoman.documents.spliced import SplicedText
from dragoman.errors import DocumentError

FIELDS: Final = names("""
author-initials author-name bibliography-mark bookmark-ref chapter character-count conditional-text creation-date
creation-time creator database-display date dde-connection description drop-down editing-cycles editing-duration
execute-macro expression file-name hidden-text image-count initial-creator keywords measure modification-date
modification-time note-ref object-count page-continuation page-count page-number page-variable-get page-variable-set
paragraph-count placeholder print-date print-time printed-by reference-ref ruby script sender-city sender-company
sender-country sender-email sender-fax sender-firstname sender-initials sender-lastname sender-phone-private
sender-phone-work sender-position sender-postal-code sender-state-or-province sender-street sender-title sequence
sequence-ref sheet-name subject table-count table-formula template-name text-input time title user-defined
user-field-get user-field-input variable-get variable-input variable-set word-count
""")  # generated text
VALUES: Final = names("string text")  # types of cells whose text is not computed
IGNORED: Final = names(  # properties that do not change how text looks
    "officeooo:rsid officeooo:paragraph-rsid fo:language fo:country fo:script style:language-asian style:country-asian "
    "style:language-complex style:country-complex style:rfc-language-tag style:script-type"
)
CODE_STYLES: Final = names("Source_20_Text Source_Text Teletype Example Preformatted_20_Text")
ENCRYPTION: Final = re.compile(r"<(?:\w+:)?encryption-data[\s/>]")
STYLED: Final = re.compile(r"<style:text-properties\s[^<>]*>")
LANGUAGE_ATTRIBUTES: Final[Mapping[Script, tuple[str, str]]] = {
    "western": ("fo:language", "fo:country"),
    "asian": ("style:language-asian", "style:country-asian"),
    "complex": ("style:language-complex", "style:country-complex"),
}
CELL: Final = re.compile(
    r"(?P<tag><table:table-cell\s[^<>]*>)\s*<text:p[^<>]*>(?P<text>[^<]*)</text:p>\s*</table:table-cell>"
)
VALUE: Final = re.compile(r'\soffice:string-value="([^"]*)"')
FORMULA: Final = re.compile(r'\stable:(?:formula|condition)="([^"]*)"')
FORMULA_CELL: Final = re.compile(r"<table:table-cell(?=\s)(?=[^<>]*?\stable:formula=)[^<>]*+>")
FILTER: Final = re.compile(r"<table:filter-(?:condition|set-item)\s[^<>]*>")
FILTER_VALUES: Final = names("table:value")
PARTIAL: Final = re.compile("contain|begin|end")  # in the names of operators that compare a part of a text


def is_computed(cell: Element) -> bool:
    """Whether the text of a cell is a number, a date or the result of a formula."""
    return "table:formula" in cell.attributes or cell.attributes.get("office:value-type", "string") not in VALUES


def is_code(element: Element) -> bool:
    """Whether a span or a paragraph has a style for code."""
    return element.attributes.get("text:style-name") in CODE_STYLES


RULES: Final = Rules(
    paragraphs=names("text:p text:h"),
    strings=names("svg:title svg:desc dc:title dc:subject dc:description"),
    runs=names("text:span"),
    containers=names("text:a text:meta text:meta-field loext:content-control"),
    breaks=names("text:line-break text:tab"),
    characters={"text:s": " "},
    repeats="text:c",
    dropped=names("text:soft-page-break"),
    protected=frozenset(f"text:{one}" for one in FIELDS)
    | names("presentation:date-time presentation:header presentation:footer"),
    ranges={
        "text:bookmark-start": "text:bookmark-end",
        "text:reference-mark-start": "text:reference-mark-end",
        "text:toc-mark-start": "text:toc-mark-end",
        "text:alphabetical-index-mark-start": "text:alphabetical-index-mark-end",
        "text:change-start": "text:change-end",
        "office:annotation": "office:annotation-end",
    },
    range_ids=names("text:name text:id text:change-id office:name"),
    skipped=names("text:tracked-changes"),
    inspected=names("table:table-cell table:covered-table-cell"),
    attributes={
        "table:help-message": names("table:title"),
        "table:error-message": names("table:title"),
        "text:a": names("office:title"),
        "loext:list-item": names("loext:display-text"),
    },
    is_skipped=is_computed,
    is_code=is_code,
    direct=True,
    spaces="text:s",
)


def read(data: bytes, name: str, options: ReadOptions = NO_OPTIONS) -> Document:
    """Read the texts of a document, of its headers and footers, and of charts in it."""
    language = LanguageChange(options.source, options.target)
    if not data.startswith(b"PK"):
        part = read_part(data, name, "text", rules_for(decode_part(data, name)[0], name, language))
        return with_filters(part, "text", FormulaTexts(literals(part.text)))
    archive = open_archive(data, name)
    check_manifest(archive)
    rules: dict[str, Rules] = {}
    kept = FormulaTexts()
    for part_name in archive.parts:
        if PurePosixPath(part_name).name in ("content.xml", "styles.xml", "meta.xml"):
            text, _ = decode_part(archive.read(part_name), f"{name} ({part_name})")
            rules[part_name] = rules_for(text, f"{name} ({part_name})", language)
            kept.update(literals(text))
    if "content.xml" not in rules and "styles.xml" in rules:
        raise DocumentError(f"{name} has no text to translate, only styles", code="unsupported_format")
    if "content.xml" not in rules:
        raise DocumentError(f"{name} is damaged: it has no content.xml")
    document = read_parts(archive, rules)
    parts = {key: with_filters(part, PurePosixPath(key).stem, kept) for key, part in document.parts.items()}
    return replace(document, parts=parts)


def with_filters(part: SplicedText, label: str, kept: FormulaTexts) -> SplicedText:
    """A part with the values of filters that are texts of cells, and without the texts that formulas refer to."""
    cells = {segment.text for segment in part.segments}
    copies = find_copies(part.text, 0, FILTER, FILTER_VALUES, label)
    return keep_formula_texts(with_slots(part, copies, cells), kept)


def check_manifest(archive: Archive) -> None:
    """Reject documents with a password."""
    part = "META-INF/manifest.xml"
    # not parsed: OpenOffice declared its namespace in a DTD
    if part in archive and ENCRYPTION.search(decode_part(archive.read(part), f"{archive.name} ({part})")[0]):
        raise encrypted(archive.name)


def rules_for(text: str, name: str, language: LanguageChange) -> Rules:
    """The rules with the styles of a part: spans that change nothing but the language are plain text."""
    plain = set(plain_styles(parse(text, name), language))

    def is_plain(span: Element) -> bool:
        return span.attributes.get("text:style-name", "") in plain

    def edits(text: str) -> list[Edit]:
        return [*(declared_languages(text, language) if language else ()), *repeated_values(text)]

    return replace(RULES, is_plain=is_plain, edits=edits)


def repeated_values(text: str) -> Iterator[Edit]:
    """Edits that remove the values of cells that repeat their texts, and of formulas: programs would show old texts."""
    for cell in CELL.finditer(text):
        value = VALUE.search(cell["tag"])
        if value is not None and value[1] == cell["text"] and "table:formula=" not in cell["tag"]:
            yield cell.start() + value.start(), cell.start() + value.end(), ""
    for cell in FORMULA_CELL.finditer(text):
        if value := VALUE.search(cell[0]):
            yield cell.start() + value.start(), cell.start() + value.end(), ""


def declared_languages(text: str, language: LanguageChange) -> list[Edit]:
    """Edits of the styles and the metadata in the language of the source."""
    before, after = (LANGUAGE_ATTRIBUTES[script_of(code)] for code in (language.source, language.target))

    def change(tag: str) -> str:
        if not language.declares_source(attribute(tag, before[0])):
            return tag
        code, region = language.regional
        return set_attribute(set_attribute(tag, after[0], code), after[1], region or "none")

    return tag_edits(text, STYLED, change) + element_edits(text, "dc:language", language)


def plain_styles(events: Iterator[Event], language: LanguageChange) -> Iterator[str]:
    """The names of automatic text styles that look like the text around them, and the empty name.

    A style for text in another language than the source, if that is known, is not plain.
    """
    yield ""
    style, plain = None, False
    for event in events:
        if event.name == "office:body":
            return
        if event.kind == "start" and event.name == "style:style":
            family, parent = (event.attributes.get(f"style:{key}") for key in ("family", "parent-style-name"))
            style, plain = event.attributes.get("style:name"), family == "text" and parent is None
        elif event.kind == "start" and style is not None:
            own = event.attributes.get("fo:language")
            other = bool(language and own and own != "zxx") and not language.declares_source(own)
            same = event.name == "style:text-properties" and IGNORED.issuperset(event.attributes)
            plain = plain and same and not other
        elif event.kind == "end" and event.name == "style:style":
            if plain and style is not None:
                yield style
            style = None


def literals(text: str) -> Iterator[str]:
    """The texts in the formulas and conditions of a sheet, and in filters for a part of a text."""
    for formula in FORMULA.finditer(text):
        for literal in LITERAL.finditer(html.unescape(formula[1])):
            yield literal[1].replace('""', '"')
    for condition in FILTER.finditer(text):
        if PARTIAL.search(attribute(condition[0], "table:operator") or ""):
            yield f"*{html.unescape(attribute(condition[0], 'table:value') or '')}*"
