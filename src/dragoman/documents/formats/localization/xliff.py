"""XLIFF 1.2 and 2.x: each source is translated into its target; everything else stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dragoman.documents.edits import Edit, apply_edits
from dragoman.documents.encoding import Encoding
from dragoman.documents.formats.localization.languages import check_language
from dragoman.documents.formats.localization.states import (
    MEMORY_SEGMENT,
    MEMORY_STATE,
    MT_QUALIFIERS,
    MT_SEGMENT,
    MT_STATE,
    MT_SUB_STATE,
)
from dragoman.documents.formats.localization.xml_inline import (
    Classify,
    Inline,
    is_line_break,
    placeholder,
    read_inline,
    render_xml,
)
from dragoman.documents.formats.localization.xml_messages import read_message
from dragoman.documents.formats.localization.xml_tree import (
    Element,
    as_start_tag,
    indent_before,
    local_name,
    named,
    read_xml,
    with_attributes,
)
from dragoman.documents.markup import Token
from dragoman.documents.segment import ReadOptions, Segment, Target, TranslationPair
from dragoman.documents.spliced import SplicedText
from dragoman.errors import DocumentError

TODO_STATES: Final = frozenset(("new", "needs-translation", "initial"))  # a target in these is not a translation yet
ANGULAR: Final = re.compile(r"(START|CLOSE)_(\w+?)(?:_\d+)?")


@dataclass(frozen=True)
class Unit:
    """A source and the place of its target: a trans-unit of XLIFF 1.2, or a segment of XLIFF 2.

    A trans-unit that is divided into segments (seg-source) has several parts: segments with the places of their
    content. So does a source with ICU branches, which is a `message`. `filled` are the segments that have a
    translation, with its content.
    """

    element: Element
    source: Element
    target: Element | None
    parts: Sequence[tuple[Segment, int, int]]
    version: int
    message: SplicedText | None = None
    filled: Sequence[Edit] = ()

    def without_filled(self) -> Unit:
        """The unit with those parts alone that have no translation."""
        places = {place[:2] for place in self.filled}
        return replace(self, parts=[part for part in self.parts if part[1:] not in places])


@dataclass(frozen=True)
class XliffDocument:
    """An XLIFF file; its segments are the sources without a translation."""

    text: str
    encoding: Encoding
    units: Sequence[Unit]
    languages: Sequence[Edit]  # adds the target language, if it is known and missing

    @property
    def segments(self) -> list[Segment]:
        """The sources to translate."""
        return [segment for unit in self.units for segment, _, _ in unit.parts]

    def write(self, targets: Sequence[Target | None]) -> bytes:
        """The file with targets, with the states of machine translations."""
        if all(target is None for target in targets):
            return self.encoding.encode(self.text)
        edits, rest = list(self.languages), iter(targets)
        for unit in self.units:
            own = [next(rest) for _ in unit.parts]
            done = [target is not None for target in own]
            if any(done) if unit.message is None else all(done):
                edits += self._unit_edits(unit, own)
        return self.encoding.encode(apply_edits(self.text, edits), "xmlcharrefreplace")

    def _unit_edits(self, unit: Unit, targets: Sequence[Target | None]) -> Iterator[Edit]:
        content = self._content(unit, targets)
        approved = all(target is not None and target.approved for target in targets)
        values = {} if unit.version > 1 else MEMORY_STATE if approved else MT_STATE
        prefix = unit.source.tag.name.removesuffix(unit.source.name)
        if unit.target is None:
            space = unit.source.tag.get("xml:space")
            values = values | ({"xml:space": space} if space else {})
            attributes = "".join(f' {name}="{value}"' for name, value in values.items())
            indent = indent_before(self.text, unit.source.start)
            new = f"{indent}<{prefix}target{attributes}>{content}</{prefix}target>"
            after = unit.element.find("seg-source") or unit.source
            yield after.end, after.end, new
        else:
            tag = as_start_tag(with_attributes(self.text, unit.target.tag, values))
            yield unit.target.start, unit.target.end, f"{tag}{content}</{unit.target.tag.name}>"
        changes: dict[str, str] = {}
        if unit.version > 1:
            changes = MEMORY_SEGMENT if approved else MT_SEGMENT
        elif unit.element.get("approved") == "yes":
            changes = {"approved": "no"}
        if changes:
            own = unit.element.tag
            yield own.start, own.end, with_attributes(self.text, own, changes)

    def _content(self, unit: Unit, targets: Sequence[Target | None]) -> str:
        """The content of a target; segments without a translation are empty, and those that have one keep it."""
        if unit.message is not None:
            return unit.message.splice(targets)
        if unit.parts[0][1:] == (unit.source.tag.end, unit.source.content_end):
            assert targets[0] is not None
            return render_xml(targets[0])
        divided = unit.element.find("seg-source")
        assert divided is not None
        start = divided.tag.end
        edits = [
            (first - start, last - start, "" if target is None else render_xml(target))
            for (_, first, last), target in zip(unit.parts, targets, strict=True)
        ]
        edits += [(first - start, last - start, content) for first, last, content in unit.filled]
        return apply_edits(divided.content(self.text), sorted(edits))


def read(data: bytes, name: str, options: ReadOptions) -> XliffDocument:
    """Read an XLIFF file. Units with a translation are left unless `retranslate` is set, as is `translate="no"`."""
    text, encoding, root = read_root(data, name)
    files = named(root.children, "file")
    edits = [
        (tag.start, tag.end, with_attributes(text, tag, {attribute: options.target}))
        for tag, attribute in check_languages(root, name, options)
    ]
    units = [
        replace(unit, filled=()) if options.retranslate else unit.without_filled()
        for file in files
        for unit in find_units(text, file, file.get("translate") != "no", version(root))
        if unit.parts and (options.retranslate or not is_translated(text, unit))
    ]
    return XliffDocument(text, encoding, units, edits)


def read_pairs(data: bytes, name: str, options: ReadOptions) -> Iterator[TranslationPair]:
    """The sources with their translations, without inline elements."""
    text, _, root = read_root(data, name)
    check_languages(root, name, options)
    for file in named(root.children, "file"):
        for unit in find_units(text, file, True, version(root)):
            if unit.target is None or not (unit.filled or is_translated(text, unit)):
                continue
            divided = unit.element.find("seg-source")
            sources, targets = (segment_marks(one) for one in (divided or unit.source, unit.target))
            if divided is not None and sources and len(sources) == len(targets):
                pairs = list(zip(sources, targets, strict=True))
            else:
                pairs = [(unit.source, unit.target)]
            for source, target in pairs:
                both = [read_inline(one.content(text), classify, "").text.strip() for one in (source, target)]
                if all(both):
                    yield TranslationPair(both[0], both[1], is_unreviewed(unit.element, unit.target))


def is_unreviewed(element: Element, target: Element) -> bool:
    """Whether a unit or a segment has a machine translation that nobody has confirmed."""
    if element.get("subState") == MT_SUB_STATE:
        return element.get("state") == MT_SEGMENT["state"]
    unconfirmed = target.get("state").startswith("needs-review") and element.get("approved") != "yes"
    return unconfirmed and target.get("state-qualifier") in MT_QUALIFIERS


def read_root(data: bytes, name: str) -> tuple[str, Encoding, Element]:
    """The text, its encoding and the root element."""
    text, encoding, root = read_xml(data, name)
    if root.name != "xliff":
        raise DocumentError(f"{name} is not XLIFF: its root is <{root.name}>", code="damaged_document")
    return text, encoding, root


def check_languages(root: Element, name: str, options: ReadOptions) -> list[tuple[Token, str]]:
    """Raise if a file is in other languages; return the tags that lack the target language, and its attribute."""
    source, target = ("srcLang", "trgLang") if version(root) > 1 else ("source-language", "target-language")
    elements = [root] if version(root) > 1 else named(root.children, "file")
    for element in elements:
        check_language(name, element.get(source), options.source, "source")
        check_language(name, element.get(target), options.target)
    return [(one.tag, target) for one in elements if options.target and not one.get(target)]


def version(root: Element) -> int:
    """The main version of a file."""
    return 2 if root.get("version").startswith("2") else 1


def find_units(text: str, element: Element, translate: bool, number: int) -> Iterator[Unit]:
    """The units inside an element that are to be translated."""
    for child in element.children:
        own = {"no": False, "yes": True}.get(child.get("translate"), translate)
        if child.name in ("group", "body", "unit"):
            yield from find_units(text, child, own, number)
        elif child.name in ("trans-unit", "segment") and own and (source := child.find("source")) is not None:
            place = child.get("id") or child.get("resname") or element.get("id")
            data = {one.get("id"): one.content(text) for one in children_of(element, "originalData")}
            divided = child.find("seg-source")
            marks = segment_marks(divided) if divided is not None else []
            parts = [part(text, one, f"{place}, segment {i}", data) for i, one in enumerate(marks, 1)]
            message = None if parts else read_message(source.content(text), classifier(data), place)
            if message is not None:
                parts = [(slot.segment, slot.start, slot.end) for slot in message.slots]
            elif not parts:
                parts = [part(text, source, place, data)]
            kept = [one for one in parts if one[0].text.strip()]
            target = child.find("target")
            yield Unit(child, source, target, kept, number, message, filled_marks(text, marks, target))


def filled_marks(text: str, marks: Sequence[Element], target: Element | None) -> list[Edit]:
    """The segments of a source whose target has content: their places, and that content."""
    found = {one.get("mid"): one.content(text) for one in (segment_marks(target) if target is not None else ())}
    contents = [(mark.tag.end, mark.content_end, found.get(mark.get("mid"), "")) for mark in marks]
    return [place for place in contents if place[2].strip()]


def children_of(element: Element, name: str) -> list[Element]:
    """The children of a child."""
    child = element.find(name)
    return [] if child is None else child.children


def segment_marks(element: Element) -> list[Element]:
    """The segments of a seg-source or its target."""
    return [one for one in element.walk() if one.name == "mrk" and one.get("mtype") == "seg"]


def part(text: str, element: Element, key: str, data: dict[str, str]) -> tuple[Segment, int, int]:
    """The segment of an element with text, and the place of its content."""
    content = element.content(text)
    pretty = "\n" in content and element.get("xml:space") != "preserve" and re.search(r"\n\s+\S", content) is not None
    return read_inline(content, classifier(data), key, collapse=pretty), element.tag.end, element.content_end


def classifier(data: dict[str, str]) -> Classify:
    """The function that says what an inline element is; `data` is the original data of elements."""
    return lambda token, inside: classify(token, inside or data.get(token.get("dataRef") or "", ""))


def is_translated(text: str, unit: Unit) -> bool:
    """Whether a unit has a translation."""
    if unit.target is None or not unit.target.content(text).strip():
        return False
    state = unit.element.get("state") if unit.version > 1 else unit.target.get("state")
    if marks := segment_marks(unit.target):
        divided = unit.element.find("seg-source")
        known = {mark.get("mid") for mark in segment_marks(divided)} if divided is not None else set()
        if any(mark.get("mid") not in known and mark.content(text).strip() for mark in marks):
            return True  # not those of the source: left as they are
        return {place[:2] for place in unit.filled} >= {part[1:] for part in unit.parts}
    return state not in TODO_STATES


def classify(token: Token, inside: str) -> Inline:
    """What an inline element of XLIFF is."""
    get = token.get
    match local_name(token.name):
        case "g" | "pc":
            return Inline("pair")
        case "mrk":
            return Inline("protected" if get("mtype") == "protected" or get("translate") == "no" else "pair")
        case "bpt" | "bx" | "sc" | "sm":
            return Inline("open", get("rid") or get("id") or "")
        case "ept" | "ex" | "ec" | "em":
            return Inline("close", get("rid") or get("startRef") or get("id") or "")
        case "x" if angular := ANGULAR.fullmatch(get("id") or ""):
            return Inline("open" if angular[1] == "START" else "close", f"angular {angular[2]}")
        case "x" | "ph" if is_line_break(token, inside):
            return Inline("break")
        case "x" | "ph":
            shows = placeholder(get("equiv-text"), get("disp"), inside, get("equiv"))
            name = get("id") if local_name(token.name) == "x" else get("equiv")
            if not shows and (name or "").startswith(("INTERPOLATION", "ICU", "PH")):
                shows = f"{{{name}}}"
            return Inline("code", shows=shows)
    return Inline("code")
