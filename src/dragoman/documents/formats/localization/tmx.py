"""TMX: translation units without the target language get it; everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dragoman.documents.edits import Edit, apply_edits
from dragoman.documents.encoding import Encoding
from dragoman.documents.formats.localization.languages import matches
from dragoman.documents.formats.localization.xml_inline import Inline, placeholder, read_inline, render_xml
from dragoman.documents.formats.localization.xml_tree import (
    Element,
    as_start_tag,
    indent_before,
    local_name,
    named,
    read_xml,
)
from dragoman.documents.languages import primary
from dragoman.documents.markup import Token, escape_attribute
from dragoman.documents.segment import ReadOptions, Segment, Target
from dragoman.errors import DocumentError

CREATION_TOOL: Final = "dragoman"


@dataclass(frozen=True)
class Unit:
    """A translation unit: its source variant, and the empty target variant if it has one."""

    segment: Segment
    source: Element
    target: Element | None
    after: int  # where a new variant goes


@dataclass(frozen=True)
class TmxDocument:
    """A TMX file; its segments are the units without a translation."""

    text: str
    encoding: Encoding
    units: Sequence[Unit]
    language: str

    @property
    def segments(self) -> list[Segment]:
        """The sources to translate."""
        return [unit.segment for unit in self.units]

    def write(self, targets: Sequence[Target | None]) -> bytes:
        """The file with variants in the target language."""
        if all(target is None for target in targets):
            return self.encoding.encode(self.text)
        edits = [
            self._edit(unit, target) for unit, target in zip(self.units, targets, strict=True) if target is not None
        ]
        return self.encoding.encode(apply_edits(self.text, edits), "xmlcharrefreplace")

    def _edit(self, unit: Unit, target: Target) -> Edit:
        text, content = self.text, render_xml(target)
        if unit.target is not None and (segment := unit.target.find("seg")) is not None:
            tag = as_start_tag(text[segment.tag.start : segment.tag.end])
            return segment.start, segment.end, f"{tag}{content}</{segment.tag.name}>"
        source, segment = unit.source, unit.source.find("seg")
        assert segment is not None
        before, after = text[source.tag.end : segment.start], text[segment.end : source.content_end]
        before, after = (space if not space.strip() else "" for space in (before, after))
        indent = indent_before(text, source.start)
        name = "xml:lang" if source.tag.get("xml:lang") is not None else "lang"
        tool = "" if target.approved else f' creationtool="{CREATION_TOOL}"'
        variant = f'<tuv {name}="{escape_attribute(self.language)}"{tool}>{before}<seg>{content}</seg>{after}</tuv>'
        return unit.after, unit.after, indent + variant


def read(data: bytes, name: str, options: ReadOptions) -> TmxDocument:
    """Read a TMX file. The target language is that of the options, or the only other one in the file."""
    text, encoding, root = read_xml(data, name)
    if root.name != "tmx":
        raise DocumentError(f"{name} is not TMX: its root is <{root.name}>", code="damaged_document")
    header, body = root.find("header"), root.find("body")
    if header is None or body is None:
        raise DocumentError(f"{name} has no <{'body' if header else 'header'}>", code="damaged_document")
    units = named(body.children, "tu")
    source, target = languages(units, header.get("srclang"), name, options)
    found = []
    for number, unit in enumerate(units, 1):
        variants = [variant for variant in named(unit.children, "tuv") if variant.find("seg") is not None]
        own = unit.get("srclang") or source
        sources = [one for one in variants if matches(language(one), source if own == "*all*" else own)]
        targets = [one for one in variants if matches(language(one), target)]
        if not sources or (not options.retranslate and any(segment_content(text, one) for one in targets)):
            continue
        segment = sources[0].find("seg")
        assert segment is not None
        key = f"unit {unit.get('tuid') or number}"
        read_segment = read_inline(segment.content(text), classify, key)
        if read_segment.text.strip():
            found.append(Unit(read_segment, sources[0], targets[0] if targets else None, variants[-1].end))
    return TmxDocument(text, encoding, found, target)


def read_pairs(data: bytes, name: str, options: ReadOptions) -> Iterator[tuple[str, str]]:
    """The units with both languages, without inline elements."""
    text, _, root = read_xml(data, name)
    header, body = root.find("header"), root.find("body")
    units = named(body.children, "tu") if body is not None else []
    source, target = languages(units, header.get("srclang") if header is not None else "", name, options)
    for unit in units:
        texts: dict[str, str] = {}
        for variant in named(unit.children, "tuv"):
            if (segment := variant.find("seg")) is not None:
                content = read_inline(segment.content(text), classify, "").text.strip()
                texts.setdefault(primary(language(variant)), content)
        if texts.get(primary(source)) and texts.get(primary(target)):
            yield texts[primary(source)], texts[primary(target)]


def languages(units: Sequence[Element], declared: str, name: str, options: ReadOptions) -> tuple[str, str]:
    """The source and the target language of a file."""
    present = {primary(language(one)): language(one) for unit in units for one in named(unit.children, "tuv")}
    source = options.source or ("" if declared == "*all*" else declared)
    others = [code for code in present.values() if not matches(code, source)]
    target = options.target or (others[0] if len(others) == 1 and source else "")
    if not source or not target:
        raise DocumentError(
            f"{name} has the languages {', '.join(sorted(present.values())) or 'of no unit'}, and the model does not "
            "say which ones it translates; give the target language: --to CODE",
            code="missing_language",
        )
    return source, next((code for code in present.values() if matches(code, target)), target)


def language(variant: Element) -> str:
    """The language of a variant; `lang` is that of TMX before 1.4."""
    return variant.get("xml:lang", "lang")


def segment_content(text: str, variant: Element) -> str:
    """The content of a variant, without white space around it."""
    segment = variant.find("seg")
    return "" if segment is None else segment.content(text).strip()


def classify(token: Token, inside: str) -> Inline:
    """What an inline element of TMX is."""
    match local_name(token.name):
        case "hi":
            return Inline("pair")
        case "bpt":
            return Inline("open", token.get("i") or "")
        case "ept":
            return Inline("close", token.get("i") or "")
        case "ph":
            return Inline("code", shows=placeholder(inside))
    return Inline("code")
