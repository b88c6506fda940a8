"""Documents that are zip archives: some parts have slots, and the others are copied."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from dragoman.documents.formats.office.archive import Archive
from dragoman.documents.formats.office.part import read_part
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.formats.office.xml.events import decode_part, is_well_formed, parse
from dragoman.documents.markup import names
from dragoman.documents.segment import NO_OPTIONS, Segment, Target
from dragoman.documents.spliced import SplicedText
from dragoman.errors import DocumentError

PROPERTIES = Rules(strings=names("dc:title dc:subject dc:description"))  # of the document


@dataclass(frozen=True)
class ArchiveDocument:
    """A document in a zip archive."""

    archive: Archive
    parts: Mapping[str, SplicedText]

    @property
    def segments(self) -> list[Segment]:
        """The segments of all parts."""
        return [segment for part in self.parts.values() for segment in part.segments]

    def write(self, targets: Sequence[Target | None]) -> bytes:
        """The archive with the targets in its parts; without any, the same bytes."""
        changed, place = dict[str, bytes](), 0
        for name, part in self.parts.items():
            own = targets[place : place + len(part.slots)]
            place += len(part.slots)
            if any(target is not None for target in own):
                changed[name] = part.write(own)
                self._check(name, part, changed[name])
        if changed:
            for name, part in self.parts.items():
                if name not in changed and part.edits:
                    changed[name] = part.write_edits()
        return self.archive.replace(changed)

    def _check(self, name: str, part: SplicedText, written: bytes) -> None:
        """Raise if a translated part is not well-formed and the original was."""
        label = f"{self.archive.name} ({name})"
        if not is_well_formed(decode_part(written, label)[0], doctype=True) and is_well_formed(part.text, doctype=True):
            message = f"the translation of {label} would be damaged, so nothing was written; please report this file"
            raise DocumentError(message, code="damaged_translation")


def read_parts(
    archive: Archive, rules: Mapping[str, Rules], on_segment: Callable[[Segment], None] = NO_OPTIONS.on_segment
) -> ArchiveDocument:
    """Read the parts that have rules, in the order of the archive; `on_segment` gets each segment when it is read."""
    archive.check(rules)
    parts = {
        part: read_part(
            archive.read(part), f"{archive.name} ({part})", PurePosixPath(part).stem, rules[part], on_segment
        )
        for part in archive.parts
        if part in rules
    }
    return ArchiveDocument(archive, {name: part for name, part in parts.items() if part.slots or part.edits})


def content_types(archive: Archive) -> dict[str, str]:
    """The content type of each part of an Office Open XML document."""
    name = "[Content_Types].xml"
    defaults, types = dict[str, str](), dict[str, str]()
    text, _ = decode_part(archive.read(name), f"{archive.name} ({name})")
    for event in parse(text, f"{archive.name} ({name})"):
        if event.kind == "start":
            kind = event.attributes.get("ContentType", "")
            if event.name == "ct:Default":
                defaults[event.attributes.get("Extension", "").lower()] = kind
            elif event.name == "ct:Override":
                types[event.attributes.get("PartName", "").removeprefix("/")] = kind
    for part in archive.parts:
        types.setdefault(part, defaults.get(PurePosixPath(part).suffix.removeprefix(".").lower(), ""))
    return types


def rules_by_type(archive: Archive, table: Mapping[str, Rules], main: str, kind: str) -> dict[str, Rules]:
    """The rules of each part, by patterns of content types; `main` is the pattern of the part that there must be."""
    types = content_types(archive)
    if not any(re.search(main, types[part]) for part in archive.parts if part in types):
        if any("binary" in content_type and ".main" in content_type for content_type in types.values()):
            raise DocumentError(
                f"{archive.name} is in a binary format; save it as .xlsx first", code="unsupported_format"
            )
        raise DocumentError(f"{archive.name} is damaged: it has no main part of {kind}")
    found = {}
    for part in archive.parts:
        rules = next((rules for pattern, rules in table.items() if re.search(pattern, types.get(part, ""))), None)
        if rules is not None:
            found[part] = rules
    return found
