"""Elements of a part with their places; only those that are asked for are built as trees, one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

from dragoman.documents.formats.office.xml.events import NO_ATTRIBUTES, is_well_formed, parse
from dragoman.documents.formats.office.xml.scanner import (
    RUN_TEXTS,
    SINGLE_RUNS,
    Head,
    Piece,
    RunNames,
    Scope,
    scan,
    scan_range,
    text_value,
)
from dragoman.documents.markup import Names

NONE: Final[Names] = frozenset()
NO_RUNS: Final = RunNames()


@dataclass(slots=True)
class Element:
    """An element, `text[start:end]`, with its content at `text[content:closing]`; or text, without a name."""

    name: str
    start: int
    end: int = 0
    content: int = 0
    closing: int = 0
    attributes: Mapping[str, str] = field(default_factory=dict)
    value: str = ""
    children: list[Element] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """The element and everything inside it, in order."""
        yield self
        for child in self.children:
            yield from child.walk()

    def find(self, name: str) -> Element | None:
        """The first child of that name."""
        for child in self.children:  # faster than a generator, which matters for every run
            if child.name == name:
                return child
        return None


class PlainRuns(Element):
    """Neighboring runs with the same properties and nothing but text, as if they were one element."""

    def __init__(self, found: re.Match[str], scope: Scope, head: Head) -> None:
        self.found, self.scope, self.head = found, scope, head
        self.name, self.value = scope.name(found["run"]), ""
        self.start, self.end = found.span()
        self.content, self.closing = found.start("head"), self.end - len(f"</{found['run']}>")

    @cached_property
    def attributes(self) -> Mapping[str, str]:  # type: ignore[override]
        """The attributes of the first run."""
        return self.scope.attributes(self.found.string[self.found.end("run") : self.content - 1])

    @cached_property
    def children(self) -> list[Element]:  # type: ignore[override]
        """The properties and the texts of all runs, which are only built when they are asked for."""
        names = self.scope.run_names.properties | self.scope.run_names.texts
        return list(build_trees(scan_range(self.found.string, "", self.start, self.end, self.scope), names))

    def texts(self) -> list[str]:
        """The characters of each run."""
        markup = self.found[0]
        found: list[str] = RUN_TEXTS.findall(markup)
        return list(map(text_value, found)) if "&" in markup or "\r" in markup else found

    def divide(self) -> Iterator[PlainRuns]:
        """Each run by itself."""
        for run in SINGLE_RUNS.finditer(self.found.string, self.start, self.end):
            yield PlainRuns(run, self.scope, self.head)


class TreeReader:
    """Reads the outermost elements of a part that have one of the names `built`, with everything inside them.

    Outside of those, elements called `alone` are read without what is inside, and `skipped` ones are passed over.
    `run_names` are those of plain runs.
    """

    def __init__(
        self,
        text: str,
        name: str,
        doctype: bool,
        built: Names,
        alone: Names,
        skipped: Names,
        run_names: RunNames = NO_RUNS,
    ) -> None:
        self.text, self.name, self.doctype = text, name, doctype
        self.built, self.alone, self.skipped, self.run_names = built, alone, skipped, run_names

    def read(self) -> Iterator[Element]:
        """The elements, in order."""
        pieces: Iterable[Piece]
        if is_well_formed(self.text):  # a document type could declare what patterns cannot know
            pieces = scan(self.text, self.name, self.run_names)
        else:
            pieces = (
                (event.kind, event.start, event.end, event.name, partial(dict, event.attributes), event.value, None)
                for event in parse(self.text, self.name, self.doctype)
            )
        return build_trees(pieces, self.built, self.alone, self.skipped)


def build_trees(pieces: Iterable[Piece], built: Names, alone: Names = NONE, skipped: Names = NONE) -> Iterator[Element]:
    """The elements among the pieces of a text, as `TreeReader` has them."""
    opened: list[Element] = []  # a root, and elements inside it
    depth = skipping = 0  # the latter is the depth of the element that is passed over
    for kind, start, end, name, attributes, value, run in pieces:
        if kind == "start":
            depth += 1
            if opened or (name in built and not skipping):
                element = Element(name, start, 0, end, 0, attributes(), "", [])
                if opened:
                    opened[-1].children.append(element)
                opened.append(element)
            elif not skipping and name in skipped:
                skipping = depth
            elif not skipping and name in alone:
                yield Element(name, start, start, attributes=attributes())
        elif kind == "end":
            if opened:
                element = opened.pop()
                element.closing, element.end = start, end
                if not opened:
                    yield element
            elif skipping == depth:
                skipping = 0
            depth -= 1
        elif opened and run is not None:
            runs, parent = PlainRuns(*run), opened[-1]
            parent.children += [runs] if parent.name in runs.scope.run_names.parents else runs.divide()
        elif opened and kind == "text":
            opened[-1].children.append(Element("", start, end, start, end, NO_ATTRIBUTES, value, []))
