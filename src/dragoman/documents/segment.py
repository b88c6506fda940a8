"""What the core and the formats exchange: segments of text with spans, and documents that take translations.

A format removes its markup from the text and records it as spans. The core translates the text and moves the spans to
the right words. The format writes text and spans in its own syntax.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, NamedTuple, Protocol

SpanKind = Literal["pair", "point", "protected"]
SPACES: Final = " \t\r\n\f"  # that browsers collapse
COLLAPSED: Final = re.compile(f"[{SPACES}]+")
LINE_BREAKS: Final = frozenset(["br", "hr"])  # names of points
MAX_DEPTH: Final = 64  # of nested spans; deeper ones are points, so that hostile files cannot exhaust the stack


@dataclass(frozen=True)
class Span:
    """Markup in a segment: `text[start:end]` is what it encloses.

    - "pair" encloses words: `open` and `close` are written before and after their translation.
    - "point" encloses nothing (a break, an image, a footnote): `open` is written at its place, then `close`, a space
      that belongs to it.
    - "protected" encloses text that is not translated (code, a placeholder): `open` is written instead, if it is not
      empty, and else the text itself.

    `parent` is the index of the enclosing span, None at the top. A `half` is a point that begins or ends an element
    whose other end is not in the segment; halves stay in order. `at` is the offset of `open` in the original, for
    formats that translate something inside it, such as the `alt` of an image. `name` is for reports. `spaced` is a line
    break with a space after it in the text, to divide words, that is not in the document.
    """

    start: int
    end: int
    kind: SpanKind = "pair"
    open: str = ""
    close: str = ""
    parent: int | None = None
    at: int | None = None
    name: str = ""
    half: bool = False
    spaced: bool = False

    @property
    def is_line_break(self) -> bool:
        """Whether it ends a line, and so a sentence."""
        return self.kind == "point" and self.name.lower() in LINE_BREAKS


@dataclass(frozen=True)
class Segment:
    """Text that is translated as a unit, usually a paragraph or a string, without markup.

    `key` says where it is, for reports: "line 3", "menu.file.open". With `translate=False` it is left as it is.
    A `bilingual` segment has its translation beside it, in a place that is empty until it is translated: a translation
    that equals the source is written, and one with a problem is not. `numbers` stand for numeric placeholders while the
    segment is translated, so that a plural form gets the grammar of its numbers. In a string of a `program`, more is a
    placeholder than in prose.
    Build segments with `SegmentBuilder`, which keeps spans nested.
    """

    text: str
    spans: tuple[Span, ...] = ()
    key: str = ""
    translate: bool = True
    bilingual: bool = False
    numbers: tuple[int, ...] = ()
    program: bool = False


@dataclass(frozen=True)
class Target:
    """The translation of a segment: its text, and all spans of the segment, in the same order, at their new places.

    `approved` translations were made or checked by people: they come from a translation memory.
    """

    text: str
    spans: tuple[Span, ...] = ()
    approved: bool = False


@dataclass(frozen=True)
class ReadOptions:
    """What formats with languages need to know: their codes, if known, and whether to replace translations.

    Formats that are slow to read call `on_segment` with each segment as soon as it is read.
    """

    source: str = ""
    target: str = ""
    retranslate: bool = False
    on_segment: Callable[[Segment], None] = lambda segment: None


NO_OPTIONS: Final = ReadOptions()


class TranslationPair(NamedTuple):
    """A text of a bilingual document and its translation, and whether the document calls that unreviewed."""

    source: str
    target: str
    unreviewed: bool = False


class Document(Protocol):
    """A document that was read."""

    @property
    def segments(self) -> Sequence[Segment]:
        """The text of the document, in reading order."""

    def write(self, targets: Sequence[Target | None]) -> bytes:
        """The document with one target for each segment; None keeps the original bytes of a segment."""


@dataclass
class SegmentBuilder:
    """Build a segment from text and markup, in the order of the document.

    With `collapse`, white space is collapsed to single spaces, as browsers do; without it, text stays as it is.
    """

    collapse: bool = False
    text: str = ""
    spans: list[Span] = field(default_factory=list)
    _open: list[int] = field(default_factory=list)
    _deep: Counter[str] = field(default_factory=Counter)  # names of spans that are open, but too deep for pairs
    _empty: int | None = None  # the point or empty pair that ends here, with nothing after it yet

    @property
    def parent(self) -> int | None:
        """The index of the innermost open span."""
        return self._open[-1] if self._open else None

    def add_text(self, text: str) -> None:
        """Add translatable text."""
        if self.collapse:
            text = self._collapsed(text)
        self.text += text
        if text:
            self._empty = None

    def _collapsed(self, text: str) -> str:
        """Text with single spaces; a space after an element without words belongs to it, and moves along.

        It does so only at the start and after another space: else it divides words. No-break spaces stay.
        """
        at_space = not self.text or self.text[-1].isspace()
        if text[:1] and text[0] in SPACES and at_space and self._empty is not None:
            last = self.spans[self._empty]
            self.spans[self._empty] = replace(last, close=last.close + text[0])
            self._empty = None
        words = [word for word in COLLAPSED.split(text) if word]
        joined = " ".join(words)
        if text[:1] and text[0] in SPACES and not at_space:
            joined = " " + joined
        return joined + " " if words and text[-1] in SPACES else joined

    def add_point(self, markup: str, at: int | None = None, name: str = "", half: bool = False) -> None:
        """Add markup that encloses nothing."""
        place = len(self.text)
        self._empty = len(self.spans)
        self.spans.append(Span(place, place, "point", markup, parent=self.parent, at=at, name=name, half=half))

    def separate_words(self, tag: str, following: str) -> None:
        """Add a space after the line break at the end if it stands between two words; `following` is the text there."""
        if tag.lower() in LINE_BREAKS and self.text[-1:].strip() and following.strip():
            self.spans[-1] = replace(self.spans[-1], spaced=True)
            self.add_text(" ")

    def add_protected(self, text: str, markup: str = "", at: int | None = None, name: str = "") -> None:
        """Add text that is not translated; `markup` is what the original has for it, if that differs."""
        if not text:
            self.add_point(markup, at, name)
            return
        place = len(self.text)
        self.text += text
        self._empty = None
        self.spans.append(Span(place, len(self.text), "protected", markup, parent=self.parent, at=at, name=name))

    def open_pair(self, markup: str, at: int | None = None, name: str = "") -> None:
        """Begin a span around words."""
        place = len(self.text)
        if len(self._open) >= MAX_DEPTH:
            self.add_point(markup, at, name)
            self._deep[name] += 1
            return
        self._empty = None
        self.spans.append(Span(place, place, "pair", markup, parent=self.parent, at=at, name=name))
        self._open.append(len(self.spans) - 1)

    def close_pair(self, markup: str, name: str = "") -> None:
        """End the innermost open span of that name; a span that was opened after it becomes a point.

        Without such a span, the markup is a point.
        """
        if self._deep[name]:
            self._deep[name] -= 1
            self.add_point(markup, name=name)
            return
        matching = [index for index in self._open if self.spans[index].name == name]
        if not matching:
            self.add_point(markup, name=name, half=True)
            return
        while self._open[-1] != matching[-1]:
            self._unpair(self._open.pop())
        index = self._open.pop()
        span, end = self.spans[index], len(self.text)  # `replace` is slower, which matters here
        self.spans[index] = Span(span.start, end, "pair", span.open, markup, span.parent, span.at, span.name, span.half)
        self._empty = index if span.start == end else None

    def _move_last_space(self) -> None:
        """A space before the point or empty pair at the end belongs to it: translations end without spaces."""
        size = len(self.text)
        last = next((i for i, span in enumerate(self.spans) if span.start == size), None)
        if last is None or not self.text.strip() or not self.text.endswith(" "):
            return
        first, around, parent = self.spans[last], set[int](), self.spans[last].parent
        while parent is not None:
            around.add(parent)
            parent = self.spans[parent].parent
        if any(span.start < size == span.end and i not in around for i, span in enumerate(self.spans)):
            return  # an element ends between the space and it
        if any(self.spans[i].start == size for i in around):
            return  # an element begins there
        if not any(span.spaced and span.start == size - 1 for span in self.spans):
            self.spans[last] = replace(first, open=f" {first.open}")
        self.text = self.text[:-1]
        self.spans = [
            replace(span, start=min(span.start, size - 1), end=min(span.end, size - 1)) for span in self.spans
        ]

    def _unpair(self, index: int) -> None:
        """Turn an open span into a point; what it encloses gets its parent at the end."""
        span = self.spans[index]
        self.spans[index] = replace(span, kind="point", end=span.start, half=True)

    def _leave_points(self) -> None:
        """Give what is inside a point, which was a pair once, to the parent of the point."""
        for i, span in enumerate(self.spans):
            if span.parent is not None and self.spans[span.parent].kind == "point":  # whose own parent is right
                self.spans[i] = replace(span, parent=self.spans[span.parent].parent)

    def build(self, key: str = "", translate: bool = True) -> Segment:
        """The segment; spans that are still open become points."""
        while self._open:
            self._unpair(self._open.pop())
        self._leave_points()
        if self.collapse:
            self._move_last_space()
        return Segment(self.text, tuple(self.spans), key, translate)


def render(
    content: Segment | Target,
    escape: Callable[[str], str] = str,
    markup: Callable[[Span], str] = lambda span: span.open,
) -> str:
    """Text and spans in the syntax of a format.

    `escape` writes text, and `markup` writes what opens a span, replaces protected text, or is a point.
    """
    if not content.spans:
        return escape(content.text)
    return "".join(_render(content, children_of(content.spans), escape, markup, 0, len(content.text), None))


def children_of(spans: Sequence[Span]) -> dict[int | None, list[int]]:
    """The indices of the spans inside each span, and at the top (None), in the order of their places."""
    children: dict[int | None, list[int]] = {}
    for index in sorted(range(len(spans)), key=lambda i: (spans[i].start, spans[i].end, i)):
        children.setdefault(spans[index].parent, []).append(index)
    return children


def _render(
    content: Segment | Target,
    children: dict[int | None, list[int]],
    escape: Callable[[str], str],
    markup: Callable[[Span], str],
    start: int,
    end: int,
    parent: int | None,
) -> Iterator[str]:
    """The content from `start` to `end`, inside the span `parent`."""
    for index in children.get(parent, ()):
        span = content.spans[index]
        yield escape(content.text[start : span.start])
        if span.kind == "protected":
            yield markup(span) if span.open else escape(content.text[span.start : span.end])
        else:
            yield markup(span)
            yield from _render(content, children, escape, markup, span.start, span.end, index)
            yield span.close
        start = span.end + (span.spaced and content.text.startswith(" ", span.end))
    yield escape(content.text[start:end])
