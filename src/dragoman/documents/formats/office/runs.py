"""Slots whose text is in runs: each stretch of a translation gets the run that its words had."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dragoman.documents.formats.office.items import PLAIN, Item, TextRun
from dragoman.documents.formats.office.rules import Rules
from dragoman.documents.markup import escape_xml
from dragoman.documents.segment import SegmentBuilder, Span, Target, children_of
from dragoman.documents.spliced import Slot
from dragoman.documents.transfer.ranges import Range

REPEATED: Final = re.compile(" {2,}")
SPACE: Final = re.compile(r"[ \t\r\n]+")


@dataclass(frozen=True)
class RunSlot(Slot):
    """A slot with runs.

    `runs` are those of spans: a pair that stands for a run, or a point that is inside one. `bases` are the runs of text
    directly in a container, and of the paragraph (None). `breaks` are the markup of the line breaks, in order. `spaces`
    is the element that stands for repeated spaces, if the format needs one.
    """

    runs: Mapping[int, TextRun] = field(default_factory=dict)
    bases: Mapping[int | None, TextRun] = field(default_factory=dict)
    breaks: Sequence[str] = ()
    spaces: str = ""
    relabel: Callable[[str], str] = str  # the markup of a run, with the language of the translation

    def render(self, target: Target, markup: Callable[[Span], str]) -> str:
        """The target as runs."""
        writer = _Writer(self, markup)
        self._write(writer, target, children_of(target.spans), markup, (0, len(target.text)), None)
        return writer.finish()

    def _write(
        self,
        writer: _Writer,
        target: Target,
        children: dict[int | None, list[int]],
        markup: Callable[[Span], str],
        place: Range,
        parent: int | None,
        run: TextRun = PLAIN,
    ) -> None:
        """Write a part of the target, inside the span `parent`; `run` is the run around it."""
        start, end = place
        own_run = None if parent is None else self.runs.get(parent)
        run = own_run or self.bases.get(parent, run)
        for index in children.get(parent, ()):
            span = target.spans[index]
            writer.add_text(target.text[start : span.start], run)
            own = self.runs.get(index)
            if span.kind == "protected" and not span.open:
                writer.add_text(target.text[span.start : span.end], run)
            elif span.kind != "pair":
                writer.add_markup(markup(span) if own is None else own.open + markup(span) + own.close)
            elif own is not None:
                self._write(writer, target, children, markup, (span.start, span.end), index)
            else:
                writer.add_markup(markup(span))
                self._write(writer, target, children, markup, (span.start, span.end), index, run)
                writer.add_markup(span.close)
            start = span.end
        writer.add_text(target.text[start:end], run)


class _Writer:
    """Collects text until the run changes."""

    def __init__(self, slot: RunSlot, markup: Callable[[Span], str]) -> None:
        self.slot, self.markup, self.breaks = slot, markup, iter(slot.breaks)
        self.written: list[str] = []
        self.text, self.run = "", PLAIN

    def add_text(self, text: str, run: TextRun) -> None:
        lines = text.split("\n")
        for number, line in enumerate(lines):
            if number > 0:
                markup = next(self.breaks, None)
                if markup is None:
                    line = "\n" + line
                else:
                    self.add_markup(markup)
            if line:
                if run != self.run:
                    self._flush()
                self.text, self.run = self.text + line, run

    def add_markup(self, markup: str) -> None:
        self._flush()
        self.written.append(markup)

    def _flush(self) -> None:
        if self.text:
            text, run = escape_xml(self.text), self.run
            if self.slot.spaces:
                text = REPEATED.sub(self._repeat, text)
                if text.startswith(" ") and not self.written:
                    text = f"<{self.slot.spaces}/>{text[1:]}"
            opening = run.open if run.at is None else self.markup(Span(0, 0, "point", run.open, at=run.at))
            self.written += [self.slot.relabel(opening), run.text_open, text, run.text_close, run.close]
        self.text = ""

    def _repeat(self, spaces: re.Match[str]) -> str:
        element = self.slot.spaces
        return f' <{element} {element.partition(":")[0]}:c="{len(spaces[0]) - 1}"/>'

    def finish(self) -> str:
        self._flush()
        return "".join(self.written)


def make_slot(items: Sequence[Item], key: str, rules: Rules, spaces: str) -> RunSlot:
    """The slot of a paragraph from its items; runs that look like most of the text around them need no span."""
    builder, runs, breaks = SegmentBuilder(), dict[int, TextRun](), list[str]()
    bases = choose_bases(items)
    opened = [-1]  # items that opened containers
    found: dict[int | None, TextRun] = {None: bases[-1]}
    current: TextRun | None = None

    def leave() -> None:
        nonlocal current
        if current is not None:
            builder.close_pair("", current.name)
        current = None

    for index, item in enumerate(items):
        match item.kind:
            case "text":
                text = item.text
                if rules.direct and item.run.text_open == "" and not item.markup.startswith("<"):
                    text = SPACE.sub(" ", text)
                    text = text.removeprefix(" ") if builder.text[-1:] in ("", " ", "\n") else text
                if text.strip() and item.run.key != (current or bases[opened[-1]]).key:
                    leave()
                    if item.run.key != bases[opened[-1]].key:
                        current = item.run
                        builder.open_pair("", name=item.run.name)
                        runs[len(builder.spans) - 1] = item.run
                builder.add_text(text)
            case "break":
                builder.add_text("\n")
                breaks.append(item.markup)
            case "open":
                leave()
                builder.open_pair(item.whole, item.at if item.run == PLAIN else None, item.name)
                opened.append(index)
                found[len(builder.spans) - 1] = bases[index]
            case "close":
                leave()
                builder.close_pair(item.whole, item.name)
                opened.pop()
            case "point" | "protected":
                if item.kind == "point":
                    builder.add_point(item.markup, item.at, item.name)
                else:
                    builder.add_protected(item.text, item.markup, item.at, item.name)
                if item.run != PLAIN:
                    runs[len(builder.spans) - 1] = item.run
    leave()
    segment = builder.build(key)
    return RunSlot(
        items[0].unit[0],
        max([item.unit[1] for item in items]),
        segment,
        runs=runs,
        bases=found,
        breaks=breaks,
        spaces=spaces,
        relabel=rules.relabel,
    )


def choose_bases(items: Sequence[Item]) -> dict[int, TextRun]:
    """The run that most of the text in each container has, by the index of the item that opens it; -1 is all."""
    counts = {-1: dict[str, int]()}  # of characters, by the key of their run
    looks: dict[str, TextRun] = {}
    opened = [-1]
    for index, item in enumerate(items):
        if item.kind == "text":
            if item.text.strip():
                key, count = item.run.key, counts[opened[-1]]
                looks.setdefault(key, item.run)
                count[key] = count.get(key, 0) + len(item.text)
        elif item.kind == "open":
            opened.append(index)
            counts[index] = {}
        elif item.kind == "close":
            opened.pop()
    if not looks:
        return dict.fromkeys(counts, PLAIN)
    everything = dict[str, int]()
    for count in counts.values():
        for key, characters in count.items():
            everything[key] = everything.get(key, 0) + characters
    bases = {index: count or everything for index, count in counts.items()}
    return {index: looks[max(count, key=count.__getitem__)] for index, count in bases.items()}
