"""TMX: translation units without the target language get it; everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.documents.chunks import open_document
from dragoman.documents.edits import Edit, apply_edits
from dragoman.documents.encoding import Encoding
from dragoman.documents.formats.localization.languages import matches
from dragoman.documents.formats.localization.states import CREATION_TOOL
from dragoman.documents.formats.localization.xml_chunks import (
    START_BYTES,
    check_large,
    read_texts,
    split_at,
    utf_encoding,
)
from dragoman.documents.formats.localization.xml_inline import (
    Inline,
    is_line_break,
    placeholder,
    read_inline,
    render_xml,
)
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
from dragoman.documents.segment import ReadOptions, Segment, Target, TranslationPair
from dragoman.errors import DocumentError


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
    source, target = choose_languages(present_languages(units), header.get("srclang"), name, options)
    return TmxDocument(text, encoding, read_units(text, units, source, target, options.retranslate), target)


def read_units(
    text: str, units: Sequence[Element], source: str, target: str, retranslate: bool, first: int = 1
) -> list[Unit]:
    """The units to translate; `first` is the number of the first one in the file."""
    found = []
    for number, unit in enumerate(units, first):
        variants = [variant for variant in named(unit.children, "tuv") if variant.find("seg") is not None]
        own = unit.get("srclang") or source
        sources = [one for one in variants if matches(language(one), source if own == "*all*" else own)]
        targets = [one for one in variants if matches(language(one), target)]
        if not sources or (not retranslate and any(segment_content(text, one) for one in targets)):
            continue
        segment = sources[0].find("seg")
        assert segment is not None
        key = f"unit {unit.get('tuid') or number}"
        read_segment = read_inline(segment.content(text), classify, key)
        if read_segment.text.strip():
            found.append(Unit(read_segment, sources[0], targets[0] if targets else None, variants[-1].end))
    return found


def read_chunks(path: Path, options: ReadOptions) -> Iterator[TmxDocument] | None:
    """Read a large file in chunks of whole units, after a pass that checks it and finds its languages."""
    name = str(path)
    with open_document(path) as file:
        encoding = utf_encoding(file.read(START_BYTES))
    if encoding is None:
        return None
    outline = read_outline(path, name)
    source, target = choose_languages(outline.languages, outline.source, name, options)
    return _chunks(path, name, encoding, source, target, options.retranslate)


def _chunks(
    path: Path, name: str, encoding: Encoding, source: str, target: str, retranslate: bool
) -> Iterator[TmxDocument]:
    first = 1
    for text, elements in split_at(read_texts(path, name, encoding), "tu"):
        if "\0" in text:
            raise DocumentError(f"{name} has NUL characters: it is not a text file", code="damaged_document")
        yield TmxDocument(text, encoding, read_units(text, elements, source, target, retranslate, first), target)
        first, encoding = first + len(elements), Encoding(encoding.name)  # only the first chunk has a mark


def read_pairs(data: bytes, name: str, options: ReadOptions) -> Iterator[TranslationPair]:
    """The units with both languages, without inline elements."""
    text, _, root = read_xml(data, name)
    header, body = root.find("header"), root.find("body")
    units = named(body.children, "tu") if body is not None else []
    declared = header.get("srclang") if header is not None else ""
    source, target = choose_languages(present_languages(units), declared, name, options)
    for unit in units:
        texts: dict[str, str] = {}
        unreviewed = False
        for variant in named(unit.children, "tuv"):
            if (segment := variant.find("seg")) is not None:
                content = read_inline(segment.content(text), classify, "").text.strip()
                texts.setdefault(primary(language(variant)), content)
                changed = variant.get("changedate") or variant.get("changeid")
                unreviewed |= variant.get("creationtool") == CREATION_TOOL and not changed
        if texts.get(primary(source)) and texts.get(primary(target)):
            yield TranslationPair(texts[primary(source)], texts[primary(target)], unreviewed)


@dataclass
class Outline:
    """What a file says about its languages: that of its sources, and the codes of its variants by their languages."""

    source: str = ""
    languages: dict[str, str] = field(default_factory=dict)


def read_outline(path: Path, name: str) -> Outline:
    """The outline of a large file; raise if it is not well formed, declares entities or is not TMX."""
    outline, seen = Outline(), dict[str, None]()  # the root, then header and body

    def start(tag: str, attributes: dict[str, str]) -> None:
        match local_name(tag):
            case "tuv":
                own = attributes.get("xml:lang", attributes.get("lang", ""))
                outline.languages[primary(own)] = own
            case "header" if "header" not in seen:
                outline.source = attributes.get("srclang", "")
                seen["header"] = None
            case "body":
                seen["body"] = None
            case root if not seen:
                seen[root] = None

    check_large(path, name, start)
    if "tmx" not in seen:
        raise DocumentError(f"{name} is not TMX: its root is <{next(iter(seen))}>", code="damaged_document")
    for part in ("header", "body"):
        if part not in seen:
            raise DocumentError(f"{name} has no <{part}>", code="damaged_document")
    return outline


def present_languages(units: Sequence[Element]) -> dict[str, str]:
    """The codes of all variants, by their languages."""
    return {primary(language(one)): language(one) for unit in units for one in named(unit.children, "tuv")}


def choose_languages(present: dict[str, str], declared: str, name: str, options: ReadOptions) -> tuple[str, str]:
    """The source and the target language of a file with these languages."""
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
        case "ph" if is_line_break(token, inside):
            return Inline("break")
        case "ph":
            return Inline("code", shows=placeholder(inside))
    return Inline("code")
