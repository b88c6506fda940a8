"""The slots of an XML part: its paragraphs, those inside them, and attributes that people read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from dragoman.documents.formats.localization.inline_tags import add_tagged_text
from dragoman.documents.formats.office.items import Item, ItemReader, local
from dragoman.documents.formats.office.pairs import pair_ranges, trim
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.runs import make_slot
from dragoman.documents.formats.office.xml.events import decode_part
from dragoman.documents.formats.office.xml.scanner import RunNames
from dragoman.documents.formats.office.xml.tree import Element, PlainRuns, TreeReader
from dragoman.documents.markup import TAG, attributes, escape_attribute, escape_xml
from dragoman.documents.segment import MAX_DEPTH, NO_OPTIONS, Segment, SegmentBuilder
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.transfer.masks import LETTER

FILE_NAME: Final = re.compile(r"\S+\.\w{2,4}|https?://\S+")


def read_part(
    data: bytes, name: str, label: str, rules: Rules, on_segment: Callable[[Segment], None] = NO_OPTIONS.on_segment
) -> SplicedText:
    """Read a part; `name` is for messages, `label` begins the keys of its segments, `on_segment` gets each."""
    text, encoding = decode_part(data, name)
    slots = PartReader(text, name, label, rules, on_segment=on_segment).read()
    return SplicedText(text, slots, encoding, "xmlcharrefreplace", rules.edits(text))


class PartReader:
    """Finds the slots of a part."""

    def __init__(
        self,
        text: str,
        name: str,
        label: str,
        rules: Rules,
        doctype: bool = False,
        on_segment: Callable[[Segment], None] = NO_OPTIONS.on_segment,
    ) -> None:
        self.on_segment = on_segment
        self.text, self.name, self.label, self.rules, self.doctype = text, name, label, rules, doctype
        self.items = ItemReader(text, rules)
        self.named = rules.paragraphs | rules.strings | rules.attributes.keys() | rules.inspected | rules.skipped
        self.slots: list[Slot] = []
        self.count = 0

    def read(self) -> list[Slot]:
        """All slots, in order."""
        rules = self.rules
        built = rules.paragraphs | rules.strings | rules.inspected
        alone = frozenset(rules.attributes)
        parents = rules.paragraphs | rules.containers
        run_names = RunNames(parents, rules.runs - self.named, rules.properties, rules.texts, self.named)
        for element in TreeReader(self.text, self.name, self.doctype, built, alone, rules.skipped, run_names).read():
            self._element(element)
        return sorted(self.slots, key=lambda slot: (slot.start, -slot.end))

    def _element(self, element: Element) -> None:
        rules, name = self.rules, element.name
        if name in self.named:
            if name in rules.skipped or (name in rules.inspected and rules.is_skipped(element)):
                return
            if name in rules.paragraphs:
                self._paragraph(element)
            elif name in rules.strings:
                self._string(element)
            if name in rules.attributes:
                self._attributes(element)
        for child in element.children:
            # few, so that most need no call; plain runs have no such element inside
            if child.name in self.named or not (isinstance(child, PlainRuns) or not child.children):
                self._element(child)

    def _paragraph(self, paragraph: Element) -> None:
        self.count += 1
        if self.rules.is_code(paragraph):
            return
        items = pair_ranges(self.items.read(paragraph), self.rules)
        items = trim(items) if self.rules.trims else items
        if not is_movable(items) or not any(LETTER.search(item.text) for item in items if item.kind == "text"):
            return
        spaces = self.rules.spaces
        if not self.text.startswith(spaces.partition(":")[0] + ":", paragraph.start + 1):  # another prefix
            spaces = ""
        self._add(make_slot(items, f"{self.label} {self.count}", self.rules, spaces))

    def _string(self, element: Element) -> None:
        self.count += 1
        text = "".join(child.value for child in element.children)
        if LETTER.search(text):
            builder = SegmentBuilder()
            add_tagged_text(builder, text, escape_xml)  # the description of an e-book is often HTML
            segment = builder.build(f"{self.label} {self.count}")
            self._add(Slot(element.content, element.closing, segment, escape_xml))

    def _attributes(self, tag: Element) -> None:
        """Slots for the attributes of a tag that people read."""
        wanted = self.rules.attributes[tag.name]
        if wanted.isdisjoint(tag.attributes):
            return
        found = TAG.match(self.text, tag.start)
        for attribute in attributes(found, lower=False) if found else ():
            value = attribute.value
            if attribute.name in wanted and LETTER.search(value) and not FILE_NAME.fullmatch(value):
                segment = Segment(value, key=f"{self.label} {local(tag.name)} {attribute.name}")
                self._add(Slot(attribute.start, attribute.end, segment, escape_value))

    def _add(self, slot: Slot) -> None:
        self.slots.append(slot)
        self.on_segment(slot.segment)


def is_movable(items: Sequence[Item]) -> bool:
    """Whether words can change their order: no field begins or ends elsewhere, and nothing is nested too deep."""
    depths = accumulate({"open": 1, "close": -1}.get(item.kind, 0) for item in items)
    return max(depths, default=0) < MAX_DEPTH - 1 and {"begin", "separate", "end"}.isdisjoint(
        [item.role for item in items]
    )


def escape_value(text: str) -> str:
    """The value of an attribute, without characters that XML does not have."""
    return escape_attribute(text).replace("\n", "&#10;")
