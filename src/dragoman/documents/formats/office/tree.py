"""Elements of a part with their places; only those that are asked for are built as trees, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dragoman.documents.formats.office.xml_events import NO_ATTRIBUTES, Kind, Parser
from dragoman.documents.markup import Names


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


class TreeReader(Parser):
    """Reads the outermost elements of a part that have one of the names `built`, with everything inside them.

    Outside of those, elements called `alone` are read without what is inside, and `skipped` ones are passed over.
    """

    def __init__(self, text: str, name: str, doctype: bool, built: Names, alone: Names, skipped: Names) -> None:
        super().__init__(text, name, doctype)
        self.built, self.alone, self.skipped = built, alone, skipped
        self.roots: list[Element] = []
        self.opened: list[Element] = []  # a root, and elements inside it
        self.skipping = 0  # the depth of the element that is passed over
        self.last: Element | None = None  # it ends, or its start tag does, where the next event begins
        self.last_kind: Kind = "other"
        self.values: list[str] = []  # of text that comes in several calls

    def read(self) -> Iterator[Element]:
        """The elements, in order."""
        for _ in self.feed():
            complete = len(self.roots) - (self.last is not None)
            yield from self.roots[:complete]
            del self.roots[:complete]
        self._end_last(self.size)
        yield from self.roots

    def _end_last(self, place: int) -> None:
        """End what is before this place."""
        last = self.last
        if last is not None:
            if self.last_kind == "start":
                last.content = place
            elif self.last_kind == "text":
                last.value, last.closing = "".join(self.values), place
            last.end = place

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = self._enter(name)
        if not self.opened and (self.skipping or name not in self.built):
            self._outside()
            if not self.skipping and name in self.skipped:
                self.skipping = self.depth
            elif not self.skipping and name in self.alone:
                place = self._place()
                self.roots.append(Element(name, place, place, attributes=self._renamed(attributes)))
            return
        place = self._place()
        self._end_last(place)
        element = Element(name, place, 0, 0, 0, self._renamed(attributes) if attributes else NO_ATTRIBUTES, "", [])
        (self.opened[-1].children if self.opened else self.roots).append(element)
        self.opened.append(element)
        self.last, self.last_kind = element, "start"

    def _end(self, name: str) -> None:
        if self.opened:
            place = self._place()
            self._end_last(place)
            self.last, self.last_kind = self.opened.pop(), "end"
            self.last.closing = place
        else:
            self._outside()
            if self.skipping == self.depth:
                self.skipping = 0
        self.depth -= 1

    def _text(self, value: str) -> None:
        if not self.opened:
            self._outside()
        elif self.last_kind == "text":
            self.values.append(value)
        else:
            place = self._place()
            self._end_last(place)
            self.last, self.last_kind, self.values = Element("", place, content=place), "text", [value]
            self.opened[-1].children.append(self.last)

    def _other(self, _: str) -> None:
        if self.opened:
            place = self._place()
            self._end_last(place)
            self.last, self.last_kind = Element("", place), "other"
        else:
            self._outside()

    def _outside(self) -> None:
        """End the root before this event, which is outside of all roots."""
        if self.last is not None:
            self._end_last(self._place())
            self.last = None
