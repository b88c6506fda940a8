"""Markdown: CommonMark with tables, strikethrough, footnotes, task lists, and a YAML front matter.

markdown-it finds the blocks, with their lines, and the inline elements of each, without their places. `Inline` walks
through the elements and the text side by side, so that the original markup of each is known.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dragoman.documents.encoding import decode
from dragoman.documents.formats.front_matter import read_front_matter
from dragoman.documents.formats.html import html
from dragoman.documents.formats.markdown_escapes import escape, escape_cell
from dragoman.documents.formats.markdown_inline import Inline
from dragoman.documents.formats.markdown_rules import TEMPLATE, add_rules
from dragoman.documents.segment import Span
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.transfer.masks import LETTER

if TYPE_CHECKING:
    from markdown_it.token import Token

LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
FIXED_LINE: Final = re.compile(
    r"\s*(?::::.*|!!!.*|\?\?\?.*|\{%.*%\}|\{\{[<%].*[>%]\}\}|\[TOC\]|\[\[.*\]\]|\{:.*\})\s*"
)  # of site generators
PREFIX: Final = re.compile(r"(?:\[[ xX]\]\s+|\[![A-Z]+\]\s*)")  # tasks and alerts
DEFINITION: Final = re.compile(r":[ \t]+(?=\S)")  # of a term, which is the line before it
ABBREVIATION: Final = re.compile(r"\*\[[^\]]+\]:[ \t]+(?=\S)")
ATTRIBUTES: Final = re.compile(  # of a heading: {#name .class}
    r"(?:(?<![ \t])[ \t]+|(?<![ \t\])*_`]))\{:?[ \t]*[#.][^{}\n]*\}[ \t]*\Z"
)
PRIVATE_USE: Final = range(0xE000, 0xF900)
CELL: Final = re.compile(r"(?:[^|\\]|\\.)*")


def read(data: bytes, name: str) -> SplicedText:
    """Read a Markdown file; code, HTML attributes of scripts, link targets and directives are left as they are."""
    text, encoding = decode(data, name)
    slots, start = read_front_matter(text, name)
    return SplicedText(text, [*slots, *Blocks(text, start).read()], encoding)


def definition_lines(lines: Sequence[str]) -> frozenset[int]:
    """The lines of a paragraph that begin a definition or explain an abbreviation, and those that are a term."""
    definitions = [i for i, line in enumerate(lines) if DEFINITION.match(line.lstrip())]
    abbreviations = frozenset(i for i, line in enumerate(lines) if ABBREVIATION.match(line.lstrip()))
    if not definitions:
        return abbreviations
    terms = (i - 1 for i in definitions if i and not lines[i - 1][:1].isspace())
    return abbreviations.union(range(definitions[0]), terms, definitions)


class Blocks:
    """The blocks of a text from a place on."""

    def __init__(self, text: str, start: int) -> None:
        from markdown_it import MarkdownIt

        self.text = text
        self.parser = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
        add_rules(self.parser)
        self.filler = next((one for one in map(chr, PRIVATE_USE) if one not in text), " ")
        self.env: dict[str, Any] = {}
        self.lines = [found.span() for found in LINE.finditer(text, start) if found[0]]
        self.before = text.count("\n", 0, start)  # lines of the front matter
        body = re.sub(r"\r\n|\r", "\n", text[start:])
        self.tokens = self.parser.parse(self._filled(body), self.env)
        for token in self.tokens:
            token.content = self._unfilled(token.content)

    def _filled(self, content: str) -> str:
        """Content without spaces inside templates, so that link targets such as {% link a.md %} are found."""
        return TEMPLATE.sub(lambda found: found[0].replace(" ", self.filler), content)

    def _unfilled(self, content: str) -> str:
        return content.replace(self.filler, " ")

    def read(self) -> Iterator[Slot]:
        """The slots, in order."""
        in_table, before = False, ""
        for token in self.tokens:
            if token.type in ("table_open", "table_close"):
                in_table = token.type == "table_open"
            elif token.type == "tr_open" and token.map:
                yield from self._row(token.map[0])
            elif token.type == "html_block" and token.map:
                yield from self._html(token)
            elif token.type == "inline" and token.map and not in_table:
                yield from self._paragraph(token, before)
            before = token.type

    def _line(self, number: int) -> tuple[int, str]:
        """The place of a line, and its text without its end."""
        start, end = self.lines[number]
        return start, self.text[start:end].rstrip("\r\n")

    def _paragraph(self, token: Token, before: str) -> Iterator[Slot]:
        """The slots of a paragraph or heading; definitions and lines that belong to a site generator divide it."""
        assert token.map is not None
        content, places = "", list[int]()
        lines = token.content.split("\n")
        starts = definition_lines(lines) if before == "paragraph_open" else frozenset()
        for number, line in enumerate(lines, token.map[0]):
            start, source = self._line(number)
            words = line.strip()
            atx = before == "heading_open" and token.markup.startswith("#")
            first = source.find("#") if atx else 0
            at = source.find(words, max(0, first)) if before == "heading_open" else source.rstrip().rfind(words)
            if at < 0 or FIXED_LINE.fullmatch(words):
                yield from self._inline(content.rstrip("\n"), places, before)
                content, places = "", []
                continue
            if number - token.map[0] in starts:
                yield from self._inline(content.rstrip("\n"), places, before)
                content, places = "", []
                mark = DEFINITION.match(words) or ABBREVIATION.match(words)
                words, at = (words, at) if mark is None else (words[mark.end() :], at + mark.end())
            content += words + line[len(line.rstrip()) :] * (line.endswith("  ")) + "\n"
            places += range(start + at, start + at + len(content) - len(places))
        yield from self._inline(content.rstrip("\n"), places, before)

    def _row(self, number: int) -> Iterator[Slot]:
        """The slots of the cells of a table."""
        start, line = self._line(number)
        place = 0
        while place < len(line):
            cell = CELL.match(line, place)
            assert cell is not None
            if words := cell[0].strip():
                first = start + cell.start() + cell[0].index(words)
                yield from self._inline(words, range(first, first + len(words) + 1), "cell")
            place = cell.end() + 1

    def _html(self, token: Token) -> Iterator[Slot]:
        """The slots of a block of HTML; in a quote or list, its lines have a prefix, which is not a part of it."""
        assert token.map is not None
        places, prefixed = list[int](), False
        for number, line in enumerate(token.content.rstrip("\n").split("\n"), token.map[0]):
            start, source = self._line(number)
            if not source.endswith(line):  # a tab that is partly a prefix
                return
            first = start + len(source) - len(line)
            prefixed = prefixed or first > start
            places += range(first, first + len(line) + 1)
        for slot in html.read_slots(token.content.rstrip("\n")):
            spans = tuple(self._moved(span, places) for span in slot.segment.spans)
            lost = prefixed and any("\n" in span.open + span.close.rstrip() for span in spans)  # with their prefixes
            segment = replace(slot.segment, spans=spans, translate=slot.segment.translate and not lost)
            yield replace(slot, start=places[slot.start], end=places[slot.end - 1] + 1, segment=segment)

    def _moved(self, span: Span, places: Sequence[int]) -> Span:
        """A span of a block at its place in the text; without one if a prefix is inside it."""
        at = None if span.at is None else places[span.at]
        at = at if at is not None and self.text.startswith(span.open.strip(), at) else None
        return replace(span, at=at, close=re.sub(r"\s+$", " ", span.close))  # a line break would need a prefix

    def _inline(self, content: str, places: Sequence[int], block: str) -> Iterator[Slot]:
        """The slots of inline content, whose characters are at `places` in the text."""
        if not LETTER.search(content):
            return
        skipped = PREFIX.match(content)
        skip = skipped.end() if skipped else 0
        content, places = content[skip:], [*places, places[-1] + 1][skip : len(content) + 1]
        if attributes := ATTRIBUTES.search(content):
            content = content[: attributes.start()]
            places = places[: len(content) + 1]
            if not LETTER.search(content):
                return
        filled = self._filled(content)
        children = self.parser.parseInline(filled, self.env)[0].children or []
        for child in children:
            child.content = self._unfilled(child.content)
        key, write = f"line {self._number(places[0])}", escape
        if block == "cell":
            key, write = f"{key}, cell", escape_cell
        walk = Inline(self.text, content, filled, places, key, write)
        yield from walk.read(children)

    def _number(self, place: int) -> int:
        """The number of the line with this place."""
        return self.before + bisect_right(self.lines, place, key=lambda line: line[0])
