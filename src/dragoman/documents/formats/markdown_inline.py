"""Inline Markdown: emphasis, links, images, code and breaks, with their places in the original."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from dragoman.documents.formats.html import html
from dragoman.documents.formats.html.elements import PROTECTED, VOID
from dragoman.documents.formats.markdown_escapes import escape_cell, escape_title, protect_start
from dragoman.documents.formats.markdown_rules import ATTRIBUTES
from dragoman.documents.markup import TAG
from dragoman.documents.segment import Segment, SegmentBuilder, Span, Target
from dragoman.documents.spliced import Slot
from dragoman.documents.transfer.masks import LETTER

if TYPE_CHECKING:
    from markdown_it.token import Token

NOTE: Final = re.compile(r"\[\^[^\]\s]+\]")
LINK_END: Final = re.compile(
    r"""\]\(\s*(?:<[^<>\n]*>|(?:\\.|[^\s()\\]|\((?:\\.|[^\s()\\]|\([^\s()]*\))*\))*)"""
    r"""(?:\s+(?P<title>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\((?:\\.|[^()\\])*\)))?\s*\)""",
    re.DOTALL,
)
REFERENCE_END: Final = re.compile(r"\]\[((?:\\.|[^\[\]\\])*)\]", re.DOTALL)
SOFT_BREAK: Final = re.compile(r"[ \t]*\n[ \t]*")
HARD_BREAK: Final = re.compile(r"(?:[ \t]*|\\)\n[ \t]*")
EMPHASIS: Final = frozenset(["em", "strong", "s"])


@dataclass(frozen=True)
class InlineSlot(Slot):
    """A slot whose translation has no emphasis around nothing, which would be text: `__`.

    `link_ends` are the places of what closes the links, by the index of the span: a title in it is translated.
    """

    link_ends: Mapping[int, int] = field(default_factory=dict)

    def render(self, target: Target, markup: Callable[[Span], str]) -> str:
        """The target in the syntax of the format."""
        parents = {span.parent for span in target.spans}
        spans = (
            replace(span, open="", close="")
            if span.name in EMPHASIS and span.start == span.end and i not in parents
            else replace(span, close=markup(Span(0, 0, "point", span.close, at=self.link_ends[i])))
            if i in self.link_ends
            else span
            for i, span in enumerate(target.spans)
        )
        return super().render(replace(target, spans=tuple(spans)), markup)


@dataclass
class Inline:
    """Walks through inline elements and their text; `place` is how far it is in `content`.

    `filled` is the content without spaces inside templates, which may be link targets.
    """

    text: str
    content: str
    filled: str
    places: Sequence[int]
    key: str
    escape: Callable[[str], str]
    place: int = 0
    start: int = 0  # of the current segment
    builder: SegmentBuilder = field(default_factory=lambda: SegmentBuilder(collapse=True))
    slots: list[Slot] = field(default_factory=list)
    inner: list[Slot] = field(default_factory=list)
    labels: list[tuple[int, int]] = field(default_factory=list)  # where the text of each open link starts; its span
    link_ends: dict[int, int] = field(default_factory=dict)  # of the current segment

    def read(self, children: Sequence[Token]) -> list[Slot]:
        """The slots of the elements; the content is left as it is if they do not match it."""
        last = ("", "")  # of the elements that are protected as one
        for token in children:
            if last != ("", ""):
                last = ("", "") if (token.type, token.content.lower()) == last else last
            elif token.type == "link_open" and token.markup == "autolink":
                self._protect(self.content.index(">", self.place) + 1)
                last = ("link_close", "")
            elif token.type == "html_inline" and (name := self._code_element(token.content)):
                last = ("html_inline", f"</{name}>")
            elif not self._take(token):
                return [Slot(self.places[0], self.places[-1], Segment(self.content, key=self.key, translate=False))]
        self._flush(len(self.content))
        return [*self.slots, *self.inner]

    def _take(self, token: Token) -> bool:
        """Add an element; False if the content does not continue with it."""
        match token.type:
            case "text":
                return self._words(token.content)
            case "text_special":
                return self._markup(token.markup, "text", token.content)
            case "softbreak":
                return self._break(SOFT_BREAK, hard=False)
            case "hardbreak":
                return self._break(HARD_BREAK, hard=True)
            case "code_inline":
                return self._code(token.markup)
            case "formula" | "template":
                self._protect(self.place + len(token.content), token.content if token.type == "template" else "code")
                return True
            case "attributes":
                if not self.content.endswith(token.content, 0, self.place):  # taken with what they belong to
                    self._protect(self.place + len(token.content))
                return True
            case "span_open":
                return self._markup("[", "open", "span")
            case "span_close":
                return self._markup("]", "close", "span")
            case "em_open" | "strong_open" | "s_open":
                return self._markup(token.markup, "open", token.tag)
            case "em_close" | "strong_close" | "s_close":
                return self._markup(token.markup, "close", token.tag)
            case "link_open":
                self.labels.append((self.place + 1, len(self.builder.spans)))
                return self._markup("[", "open", "link")
            case "link_close":
                return self._close_link()
            case "image":
                return self._image(token)
            case "html_inline":
                return self._tag(token.content)
        return False

    def _raw(self, end: int) -> tuple[str, int]:
        """The original up to `end`, with attributes that follow, and its place; the walk goes on there."""
        at = self.places[self.place]
        attributes = ATTRIBUTES.match(self.content, end)
        end = end if attributes is None else attributes.end()
        raw = self.text[at : self.places[end]]
        self.place = end
        return raw, at

    def _words(self, words: str) -> bool:
        if not self.content.startswith(words, self.place):
            return False
        done = 0
        for found in NOTE.finditer(words):
            self._plain(words[done : found.start()])
            raw, at = self._raw(self.place + len(found[0]))
            self.builder.add_point(raw, at, "footnote")
            done = found.end()
        self._plain(words[done:])
        return True

    def _plain(self, words: str) -> None:
        self.builder.add_text(words)
        self.place += len(words)

    def _markup(self, markup: str, kind: str, name: str) -> bool:
        if not self.content.startswith(markup, self.place):
            return False
        raw, at = self._raw(self.place + len(markup))
        if kind == "text":
            self.builder.add_text(name)
        elif kind == "open":
            self.builder.open_pair(raw, at, name)
        else:
            self.builder.close_pair(raw, name)
        return True

    def _break(self, pattern: re.Pattern[str], hard: bool) -> bool:
        found = pattern.match(self.content, self.place)
        if found is None:
            return False
        if hard and self.builder.parent is None:
            self._flush(self.place)
            self.place = self.start = found.end()
        elif hard:
            raw, at = self._raw(found.end())
            self.builder.add_point(raw, at, "br")
        else:
            self.builder.add_text(" ")
            self.place = found.end()
        return True

    def _protect(self, end: int, name: str = "code") -> None:
        words = self.content[self.place : end]
        raw, at = self._raw(end)
        self.builder.add_protected(" ".join(words.split()), raw, at, name)

    def _code(self, fence: str) -> bool:
        closing = re.compile(rf"(?<!`){fence}(?!`)").search(self.content, self.place + len(fence))
        if closing is None or not self.content.startswith(fence, self.place):
            return False
        self._protect(closing.end())
        return True

    def _close_link(self) -> bool:
        start, index = self.labels.pop()
        label = self.content[start : self.place]
        end = LINK_END.match(self.filled, self.place)
        reference = REFERENCE_END.match(self.content, self.place)
        if end is not None or (reference is not None and reference[1]):
            found = end or reference
            assert found is not None
            raw, self.link_ends[index] = self._raw(found.end())
            self._title(end, "link")
            self.builder.close_pair(raw, "link")
            return True
        if not self.content.startswith("]", self.place):
            return False
        raw, _ = self._raw(self.place + 1 if reference is None else reference.end())
        attributes = raw.removeprefix("]").removeprefix("[]")
        self.builder.close_pair(f"][{label}]{attributes}", "link")  # the text, its own label, will be another
        return True

    def _image(self, token: Token) -> bool:
        opening = f"![{token.content}"
        if not self.content.startswith(opening, self.place):
            return False
        alt = self.place + 2, self.place + len(opening)
        end = LINK_END.match(self.filled, alt[1])
        reference = REFERENCE_END.match(self.content, alt[1])
        if end is None and reference is None:
            raw, at = self._raw(alt[1] + 1)
            self.builder.add_point(raw, at, "image")
            return True
        found = end or reference
        assert found is not None
        plain = all(child.type in ("text", "template") for child in token.children or ())
        if plain and LETTER.search(token.content) and (end is not None or (reference is not None and reference[1])):
            segment = Segment(" ".join(token.content.split()), key=f"{self.key}, image")
            self.inner.append(Slot(self.places[alt[0]], self.places[alt[1]], segment, self.escape))
        self._title(end, "image")
        raw, at = self._raw(found.end())
        self.builder.add_point(raw, at, "image")
        return True

    def _title(self, end: re.Match[str] | None, name: str) -> None:
        """A slot for the title at the end of a link or an image, if it has one."""
        from markdown_it.common.utils import unescapeAll

        start, last = (-1, -1) if end is None else end.span("title")
        title = " ".join(unescapeAll(self.content[start + 1 : last - 1]).split()) if start >= 0 else ""
        if LETTER.search(title):
            marks = self.content[last - 1] + ("(" if self.content[start] == "(" else "")
            write = partial(escape_title, marks=marks + "|" * (self.escape is escape_cell))
            segment = Segment(title, key=f"{self.key}, {name} title")
            self.inner.append(Slot(self.places[start + 1], self.places[last - 1], segment, write))

    def _code_element(self, markup: str) -> str:
        """Protect the HTML element that this tag opens, if it is one of code; return its name, or an empty string."""
        tag = TAG.match(markup)
        name = "" if tag is None or tag["slash"] or markup.endswith("/>") else tag["name"].lower()
        if name not in PROTECTED or not self.content.startswith(markup, self.place):
            return ""
        end = re.compile(rf"</{name}>", re.IGNORECASE).search(self.content, self.place)
        if end is None:
            return ""
        raw, at = self._raw(end.end())
        self.builder.add_protected(" ".join(raw[len(markup) : -len(name) - 3].split()), raw, at, name)
        return name

    def _tag(self, markup: str) -> bool:
        if not self.content.startswith(markup, self.place):
            return False
        tag = TAG.match(markup)
        for slot in html.read_slots(markup):  # of attributes
            first, last = (self.places[self.place + one] for one in (slot.start, slot.end))
            segment = replace(slot.segment, key=f"{self.key}, {slot.segment.key}")
            self.inner.append(replace(slot, start=first, end=last, segment=segment))
        raw, at = self._raw(self.place + len(markup))
        if tag is None or tag["name"].lower() in VOID or markup.endswith("/>"):
            self.builder.add_point(raw, at, "tag" if tag is None else tag["name"])
            if tag is not None:
                self.builder.separate_words(tag["name"], self.content[self.place : self.place + 1])
        elif tag["slash"]:
            self.builder.close_pair(raw, tag["name"].lower())
        else:
            self.builder.open_pair(raw, at, tag["name"].lower())
        return True

    def _flush(self, end: int) -> None:
        """End the current segment."""
        segment = self.builder.build(self.key)
        self.builder = SegmentBuilder(collapse=True)
        if LETTER.search(segment.text):
            last = self.places[end - 1] + 1 if end else self.places[end]
            self.slots.append(
                InlineSlot(self.places[self.start], last, segment, self.escape, protect_start, self.link_ends)
            )
        self.link_ends = {}
