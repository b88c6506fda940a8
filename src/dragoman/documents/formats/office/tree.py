"""Elements of a part with their places; only paragraphs are built as trees, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dragoman.documents.formats.office.xml_events import Event


@dataclass(slots=True)
class Element:
    """An element, `text[start:end]`, with its content at `text[content:closing]`; or text, without a name."""

    name: str
    start: int
    end: int
    content: int
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
        return next((child for child in self.children if child.name == name), None)


def build(start: Event, events: Iterator[Event]) -> Element:
    """The tree of the element that begins with `start`; takes its events."""
    root = Element(start.name, start.start, start.end, start.end, attributes=start.attributes)
    opened = [root]
    while opened:
        event = next(events)
        if event.kind == "start":
            element = Element(event.name, event.start, event.end, event.end, attributes=event.attributes)
            opened[-1].children.append(element)
            opened.append(element)
        elif event.kind == "end":
            opened[-1].closing, opened[-1].end = event.start, event.end
            opened.pop()
        elif event.kind == "text":
            opened[-1].children.append(Element("", event.start, event.end, event.start, event.end, value=event.value))
    return root
