"""Copies of the texts of cells, such as the values of a filter: they get the translation of the cells, or stay."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from dragoman.documents.formats.office.items import local
from dragoman.documents.formats.office.part import escape_value
from dragoman.documents.markup import TAG, Attribute, Names, attributes
from dragoman.documents.segment import Segment
from dragoman.documents.spliced import Slot, SplicedText


class CellCopy(Slot):
    """A slot that is translated if a cell has the same text."""


def find_attributes(text: str, start: int, tags: re.Pattern[str], wanted: Names) -> Iterator[tuple[str, Attribute]]:
    """The attributes called `wanted` of some tags, with the names of the tags; tags before `start` do not count."""
    for tag in tags.finditer(text, start):
        found = TAG.match(text, tag.start())
        for attribute in attributes(found, lower=False) if found else ():
            if attribute.name in wanted:
                yield local(tag[0][1:].split()[0]), attribute


def find_copies(text: str, start: int, tags: re.Pattern[str], wanted: Names, label: str) -> Iterator[CellCopy]:
    """Slots for the attributes of some tags that repeat the texts of cells; `label` begins their keys."""
    for name, attribute in find_attributes(text, start, tags, wanted):
        segment = Segment(attribute.value, key=f"{label} {name} {attribute.name}")
        yield CellCopy(attribute.start, attribute.end, segment, escape_value)


def with_slots(part: SplicedText, slots: Iterable[Slot], cells: Collection[str]) -> SplicedText:
    """A part with further slots; of copies, only those of the texts of these cells."""
    added = [slot for slot in slots if not isinstance(slot, CellCopy) or slot.segment.text in cells]
    return replace(part, slots=sorted([*part.slots, *added], key=lambda slot: (slot.start, -slot.end)))
