"""DrawingML: text in slides, shapes, diagrams and charts of all Office Open XML documents."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from dragoman.documents.formats.office.package import PROPERTIES
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.languages import LanguageChange, attribute, element_edits, primary, set_attribute, tag_edits
from dragoman.documents.markup import names

ALTERNATIVE_TEXTS: Final = names("descr title")
LINKS: Final = dict.fromkeys(("a:hlinkClick", "a:hlinkHover", "a:hlinkMouseOver"), names("tooltip"))


def insignificant(language: str) -> re.Pattern[str]:
    """What does not make runs look different; text in another language than `language`, if it is known, does."""
    return re.compile(rf'\s(?:lang="{language}[^"]*"|(?:altLang|dirty|err|noProof|smtClean|bmk)="[^"]*")')


DRAWING: Final = Rules(
    paragraphs=names("a:p"),
    strings=names("c:v"),
    runs=names("a:r"),
    properties=names("a:rPr"),
    texts=names("a:t"),
    breaks=names("a:br"),
    protected=names("a:fld"),
    skipped=names("c:numCache c:numLit"),
    attributes=dict.fromkeys(("p:cNvPr", "xdr:cNvPr"), ALTERNATIVE_TEXTS) | LINKS,
    insignificant=insignificant(""),
)
DRAWING_PARTS: Final = {  # patterns of content types
    r"drawingml\.chart\+xml$": DRAWING,
    r"drawingml\.chartshapes\+xml$": DRAWING,
    r"drawingml\.diagramData\+xml$": DRAWING,
    r"drawingml\.diagramDrawing\+xml$": DRAWING,
    r"core-properties\+xml$": PROPERTIES,
}
LANGUAGE: Final = re.compile(r"<a:\w*[rR]Pr\s[^<>]*>")


def with_drawing_languages(parts: Mapping[str, Rules], language: LanguageChange) -> dict[str, Rules]:
    """The rules of parts; runs in the language of the source get that of the translation."""

    def change(tag: str) -> str:
        return set_attribute(tag, "lang", language.regional_tag) if declares(tag) else tag

    def declares(tag: str) -> bool:
        return language.declares_source(attribute(tag, "lang"))

    def changed(rules: Rules) -> Rules:
        if rules is PROPERTIES:
            return replace(rules, edits=lambda text: element_edits(text, "dc:language", language))
        if "a:p" not in rules.paragraphs:
            return rules
        return replace(
            rules,
            relabel=lambda run: LANGUAGE.sub(lambda tag: change(tag[0]), run),
            insignificant=insignificant(primary(language.source)),
        )

    return {kind: changed(rules) for kind, rules in parts.items()}


def default_languages(language: LanguageChange) -> Rules:
    """The rules of a part with default properties of text."""
    defaults = re.compile(r"<a:defRPr\s[^<>]*>")

    def change(tag: str) -> str:
        declared = language.declares_source(attribute(tag, "lang"))
        return set_attribute(tag, "lang", language.regional_tag) if declared else tag

    return Rules(edits=lambda text: tag_edits(text, defaults, change))
