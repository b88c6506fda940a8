"""The content of a paragraph as a flat list: text in runs, breaks, points, and markup around them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from dragoman.documents.formats.office.rules import Role, Rules
from dragoman.documents.formats.office.xml.scanner import MAX_TAGS, Head
from dragoman.documents.formats.office.xml.tree import Element, PlainRuns
from dragoman.documents.transfer.ranges import Range

ItemKind = Literal["text", "break", "point", "open", "close", "protected"]
EMPTY: Final = re.compile(r"<[^\s<>/]+\s*(?:/>|>\s*</[^\s<>]+\s*>)")
NAME: Final = re.compile(r"</?([^\s/>]+)")
RAISED: Final = re.compile(r'val="(?P<kind>su(?:per|b)script)"|\bbaseline="(?P<sign>-?)[1-9]')
PRESERVE: Final = ' xml:space="preserve"'
OTHER_SPACE: Final = re.compile(r"""(?<!\s)\s+xml:space\s*=\s*["']\w*["']""")
XML_SPACE: Final = " \t\r\n"  # no-break spaces always count


class TextRun(NamedTuple):
    """The markup around text. Runs with the same key look the same.

    `at` is the place of `open`, if something inside it is translated.
    """

    key: str = ""
    open: str = ""
    text_open: str = ""
    text_close: str = ""
    close: str = ""
    name: str = ""
    at: int | None = None


PLAIN: Final = TextRun()


class Item(NamedTuple):
    """A piece of a paragraph.

    `unit` is the place of the smallest markup that can be replaced with it: a run, or an element between runs. `at` is
    the place of `markup` in the part. `run` encloses the markup of points and breaks in runs. `role` and `name` say
    which items are two ends of a field or of a range.
    """

    kind: ItemKind
    unit: Range
    markup: str = ""
    text: str = ""
    run: TextRun = PLAIN
    at: int | None = None
    name: str = ""
    role: Role = ""
    code: str = ""

    @property
    def whole(self) -> str:
        """The markup with its run."""
        return self.run.open + self.markup + self.run.close

    @property
    def has_content(self) -> bool:
        """Whether it has words, or stands for some."""
        return self.kind == "protected" or (self.kind == "text" and not self.text.isspace() and self.text != "")


class ItemReader:
    """Reads the items of a paragraph."""

    def __init__(self, text: str, rules: Rules) -> None:
        self.text, self.rules = text, rules
        self.items: list[Item] = []
        self.looks: dict[str, tuple[str, str]] = {}  # of the properties of runs, most of which occur often
        self.markup: dict[str, tuple[str, str]] = {}  # of text, by its start tag
        self.plain: dict[Head, TextRun] = {}  # most plain runs begin like others

    def read(self, paragraph: Element) -> list[Item]:
        """The items of a paragraph, in order."""
        self.items = []
        for child in paragraph.children:
            self._child(child, PLAIN, None)
        return self.items

    def _child(self, element: Element, run: TextRun, unit: Range | None) -> None:
        """An element of a paragraph or of a container; `unit` is given inside something that stays together."""
        name, rules = element.name, self.rules
        if isinstance(element, PlainRuns):
            self._plain_runs(element, run, unit)
        elif name in rules.runs:
            self._run(element, run, unit)
        elif name in rules.containers:
            self._container(element, run, unit)
        elif name in rules.texts:  # text without a run
            text_open, text_close = self._text_markup(element)
            own = run._replace(text_open=text_open, text_close=text_close)
            self._content(element, own, unit or (element.start, element.end))
        elif name or rules.direct:
            self._content(element, run, unit or (element.start, element.end))

    def _plain_runs(self, runs: PlainRuns, run: TextRun, unit: Range | None) -> None:
        """Runs that look the same are one item if each has words; those without may be left out at the edges."""
        head, known = runs.head, self.plain.get(runs.head)
        texts = runs.texts()
        if self._strips(head.attributes):
            texts = [text.strip(XML_SPACE) for text in texts]
        if len(texts) > 1 and (known is None or not all(map(str.strip, texts))):
            for one in runs.divide():
                self._plain_runs(one, run, unit)
        elif known is None:
            self._run(runs, run, unit)
        else:
            key, _, text_open, text_close, _, label, _ = known
            start, end, part = runs.content + head.properties_size, runs.closing, self.text
            own = TextRun(key, part[runs.start : start], text_open, text_close, part[end : runs.end], label)
            text = self._without_breaks("".join(texts))
            self.items.append(Item("text", unit or (runs.start, runs.end), part[start:end], text, own))

    def _run(self, element: Element, run: TextRun, unit: Range | None) -> None:
        rules = self.rules
        unit = unit or (element.start, element.end)
        if rules.is_code(element):
            self._protected(element, PLAIN, unit)
            return
        if rules.direct:
            if rules.is_plain(element):
                for child in element.children:
                    self._child(child, run, unit)
            elif any(child.name in rules.runs | rules.containers for child in element.children):
                self._container(element, run, unit)
            else:
                opening = self.text[element.start : element.content]
                own = TextRun(
                    opening, opening, close=self.text[element.closing : element.end], name=local(element.name)
                )
                for child in element.children:
                    self._content(child, own, unit)
            return
        properties = text = None
        for child in reversed(element.children):
            if child.name in rules.properties:
                properties = child
            elif child.name in rules.texts:
                text = child
        opening, key, label, at = self.text[element.start : element.content], "", "run", None
        if element.content == element.end:  # an empty element
            return
        if properties is not None:
            raw = self.text[properties.start : properties.end]
            opening += raw
            key, label = self.looks.get(raw) or self._look(raw, properties)
            if not rules.attributes.keys().isdisjoint([child.name for child in properties.children]):
                at, opening = element.start, self.text[element.start : properties.end]
        around = self._new_text_markup(opening) if text is None else self._text_markup(text)
        own = TextRun(key, opening, *around, self.text[element.closing : element.end], label, at)
        if isinstance(element, PlainRuns):
            if len(self.plain) == MAX_TAGS:
                self.plain.clear()
            self.plain[element.head] = own
        for child in element.children:
            if child.name and child is not properties:
                self._content(child, own, unit)

    def _look(self, raw: str, properties: Element) -> tuple[str, str]:
        """The properties of a run without what does not make runs look different, and a name for them."""
        key = " ".join(self.rules.insignificant.sub("", raw).split())
        parts = [*map(local, properties.attributes), *(local(child.name) for child in properties.children)]
        if raised := RAISED.search(raw):  # tells note marks from indices
            parts.insert(0, raised["kind"] or ("subscript" if raised["sign"] else "superscript"))
        found = self.looks[raw] = "" if EMPTY.fullmatch(key) else key, "+".join(parts)[:40] or "run"
        return found

    def _text_markup(self, element: Element) -> tuple[str, str]:
        """The tags around text in a run."""
        tag = self.text[element.start : element.content]
        if (known := self.markup.get(tag)) is not None:
            return known
        opening = tag.removesuffix(">").removesuffix("/").rstrip()
        if self.rules.preserve and element.attributes.get("xml:space") != "preserve":
            opening = OTHER_SPACE.sub("", opening) + PRESERVE
        name = NAME.match(opening)
        found = self.markup[tag] = opening + ">", f"</{name[1] if name else ''}>"
        return found

    def _new_text_markup(self, run: str) -> tuple[str, str]:
        """The tags around text in a run that has none, such as one with a hyphen; `run` is its markup."""
        prefix = run[1:].partition(">")[0].split()[0].rpartition(":")[0]
        name = ":".join(filter(None, (prefix, *map(local, self.rules.texts))))
        return f"<{name}{PRESERVE}>", f"</{name}>"

    def _container(self, element: Element, run: TextRun, unit: Range | None) -> None:
        rules, content = self.rules, element.content
        children = list(element.children)
        while children and (children[0].name in rules.properties or not (children[0].name or rules.direct)):
            content = children.pop(0).end
        if element.content == element.end:
            self._content(element, run, unit or (element.start, element.end))
            return
        first, last = (element.start, content), (element.closing, element.end)
        if (code := rules.field_code(element)) and not rules.is_translated_field(code, ""):
            self._protected(element, PLAIN, unit or (element.start, element.end))
            return
        name = local(element.name)
        self.items.append(Item("open", unit or first, self.text[slice(*first)], at=first[0], name=name))
        for child in children:
            self._child(child, run, unit)
        self.items.append(Item("close", unit or last, self.text[slice(*last)], name=name))

    def _content(self, element: Element, run: TextRun, unit: Range) -> None:
        """Text or an element in a run, or between runs."""
        rules, name = self.rules, element.name
        raw = self.text[element.start : element.end]
        wrapper = run if run.text_open or not rules.direct else PLAIN  # direct formats have points anywhere
        if not name:
            if rules.direct:
                self.items.append(Item("text", unit, raw, element.value, run))
        elif name in rules.texts:
            text = self._without_breaks("".join([child.value for child in element.children]))
            text = text.strip(XML_SPACE) if self._strips(element.attributes) else text
            self.items.append(Item("text", unit, raw, text, run))
        elif name in rules.breaks:
            self.items.append(Item("break", unit, wrapper.open + raw + wrapper.close, "\n"))
        elif name in rules.characters:
            count = element.attributes.get(rules.repeats, "1")
            times = min(int(count), 1000) if count.isascii() and count.isdecimal() else 1
            self.items.append(Item("text", unit, raw, rules.characters[name] * times, run))
        elif name in rules.dropped:
            self.items.append(Item("text", unit, raw))
        elif name in rules.protected:
            self._protected(element, wrapper, unit)
        else:
            role: Role = rules.field_part(element)
            key, code = "field", rules.field_code(element)
            if name in rules.ranges or name in rules.ranges.values():
                role = "start" if name in rules.ranges else "stop"
                ids = (value for name, value in element.attributes.items() if name in rules.range_ids)
                key = f"{rules.ranges.get(name, name)} {next(ids, '')}"
            elif not role:
                key = local(name)
            self.items.append(Item("point", unit, raw, "", wrapper, element.start, key, role, code))

    def _strips(self, attributes: Mapping[str, str]) -> bool:
        """Whether white space at the ends of a text with these attributes does not count."""
        return self.rules.strips and attributes.get("xml:space") != "preserve"

    def _without_breaks(self, text: str) -> str:
        """A text without line breaks, unless they count."""
        return text if self.rules.newlines or text.isprintable() else re.sub(r"[\t\r\n]", " ", text)

    def _protected(self, element: Element, run: TextRun, unit: Range) -> None:
        """What has text that is not translated; a point if it has none."""
        raw = self.text[element.start : element.end]
        text = " ".join("".join(child.value for child in element.walk() if not child.name).split())
        kind: ItemKind = "protected" if text else "point"
        self.items.append(Item(kind, unit, raw, text, run, element.start, local(element.name)))


def local(name: str) -> str:
    """A name without its prefix."""
    return name.rpartition(":")[2]
