"""Strings of programs, in JSON, YAML and the like: with tags, entities and ICU messages inside them.

A string with entities is HTML: its text is written with entities again.
An ICU argument with branches, `{n, plural, one {# file} other {# files}}`, is protected in the text around it, and the
text of each branch is a separate segment. So the message stays well formed whatever the model writes.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from dragoman.documents.formats.strings.numbered_tags import NUMBERED, paired_tags, tag_number
from dragoman.documents.markup import (
    CODE_TAGS,
    COMMENT,
    ENTITY,
    STRING_BLOCKS,
    STRING_VOID,
    TAG,
    TagFinder,
    escape_text,
)
from dragoman.documents.segment import SegmentBuilder, Span, Target
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.transfer.masks import LETTER
from dragoman.documents.transfer.placeholders import find_placeholders

CHOICE: Final = re.compile(r"\{\s*[\w.]+\s*,\s*(?:plural|select|selectordinal)\s*,")
BRANCH: Final = re.compile(r"\s*(?:offset\s*:\s*\d+\s+)?(?:=\d+|[\w-]+)\s*\{")
CODE: Final = re.compile(r"(?:[\w+-]*[_/\\.:@#$=][\w./\\:@#$=+-]*|[a-z]{2,3}-[A-Z]{2}|[a-z]+[A-Z]\w*)")
WORD: Final = re.compile(r"[^\W\d_][^\W\d_'’-]*(?:\.{1,3}|…|:)|[A-Z][^\W\d_]*/[^\W\d_]+")  # Done. Wait... Yes/No
# an apostrophe that would quote what follows, by the rules of ICU
QUOTING: Final = re.compile(r"(?<!')'(?=\{(?!\{))(?!\{[^{}'\n]{1,80}\}')")  # not '{literal}', which is kept as a whole
QUOTING_IN_BRANCH: Final = re.compile(r"(?<!')'(?=[{}#]|\Z)(?!\{[^{}'\n]{1,80}\}')")
MAX_NESTING: Final = 20


@dataclass(frozen=True)
class MessageSlot(Slot):
    """A slot of a string that may be an ICU message.

    An apostrophe of the translation that would quote a placeholder is written as ’, unless the source has it too.
    """

    quoting: ClassVar[re.Pattern[str]] = QUOTING

    def render(self, target: Target, markup: Callable[[Span], str]) -> str:
        """The target in the syntax of the format."""
        if len(self.quoting.findall(target.text)) > len(self.quoting.findall(self.segment.text)):
            target = replace(target, text=self.quoting.sub("’", target.text))
        return super().render(target, markup)


class BranchSlot(MessageSlot):
    """A slot inside an ICU message."""

    quoting = QUOTING_IN_BRANCH


def is_code(value: str) -> bool:
    """Whether a string is an identifier, a path, a color or the like: one word with characters that words lack."""
    return CODE.fullmatch(value) is not None and WORD.fullmatch(value) is None


def string_slots(
    value: str,
    places: Sequence[int],
    key: str,
    escape: Callable[[str], str],
    *,
    original: str,
    wrap: Callable[[str], str] = str,
) -> list[Slot]:
    """The slots of a string: one for its text, and one for each branch of the ICU messages in it.

    `places` has the offset of each character of `value` in the `original`, and that of the end.
    """
    if not LETTER.search(value) or is_code(value):
        return []
    if ENTITY.search(value):
        return list(
            _slots(value, 0, len(value), places, key, lambda text: escape(escape_text(text)), wrap, original, 0)
        )
    return list(_slots(value, 0, len(value), places, key, escape, wrap, original, 0))


def message_text(value: str, key: str) -> SplicedText | None:
    """A string with ICU branches whose translation is beside it, as a text with slots; None if it has no branches."""
    found = CHOICE.search(value)
    if found is None or found.start() not in brace_ends(value, found.start(), len(value)):
        return None
    slots = string_slots(value, range(len(value) + 1), key, str, original=value)
    return SplicedText(value, [replace(slot, segment=replace(slot.segment, bilingual=True)) for slot in slots])


def _slots(
    value: str,
    start: int,
    end: int,
    places: Sequence[int],
    key: str,
    escape: Callable[[str], str],
    wrap: Callable[[str], str],
    original: str,
    depth: int,
) -> Iterator[Slot]:
    builder, place = SegmentBuilder(), start
    inner: list[Slot] = []

    def add_text(first: int, last: int) -> None:
        """Add text; placeholders such as {:>5} are written as they are, even if text is written with entities."""
        place = first
        for low, high in find_placeholders(value[first:last], program=True):
            low, high = low + first, high + first
            found = value[low:high]
            if escape_text(found) != found:
                builder.add_text(value[place:low])
                builder.add_protected(found, original[places[low] : places[high]], places[low], found)
                place = high
        builder.add_text(value[place:last])

    for first, last, kind in _markup(value, start, end, counts=depth > 0):
        add_text(place, first)
        raw, at = original[places[first] : places[last]], places[first]
        if kind == "choice":
            builder.add_protected(value[first:last], raw, at, "{count}")  # masked by a number, as most of them are
            if depth < MAX_NESTING:
                for name, low, high in choice_branches(value, first, last):
                    inner += _slots(value, low, high, places, f"{key}[{name}]", escape, str, original, depth + 1)
        elif kind == "tag":
            tag = TAG.match(value, first)
            assert tag is not None
            if tag["name"].lower() in STRING_BLOCKS and not tag["attributes"].endswith("/"):
                builder.add_point(raw, at, "br")
                builder.separate_words("br", value[last : last + 1])
            elif tag["slash"]:
                builder.close_pair(raw, tag["name"])
            elif tag["name"].lower() in STRING_VOID or tag["attributes"].endswith("/"):
                if value[last : last + 1] == " " and (builder.text[-1:] or " ") == " ":
                    last += 1  # with the space that follows it
                builder.add_point(original[at : places[last]], at, tag["name"])
                builder.separate_words(tag["name"], value[last : last + 1])
            else:
                builder.open_pair(raw, at, tag["name"])
        elif kind == "pair":
            builder.open_pair(raw, at, tag_number(value, first))
        elif kind == "end":
            builder.close_pair(raw, tag_number(value, first))
        elif kind == "code":
            builder.add_protected(TAG.sub("", value[first:last]), raw, at, "code")
        elif kind == "comment":
            builder.add_point(raw, at)
        elif kind == "entity":
            builder.add_text(html.unescape(value[first:last]))
        else:
            builder.add_protected(value[first:last], raw, at, value[first:last])
        place = last
    add_text(place, end)
    segment = replace(builder.build(key), program=True)
    if LETTER.search(segment.text):
        slot = BranchSlot if depth else MessageSlot
        yield slot(places[start], places[end], segment, escape, wrap)
    yield from inner


def _markup(value: str, start: int, end: int, counts: bool) -> Iterator[tuple[int, int, str]]:
    """The tags, entities and ICU messages of a text, in order; with `counts` also `#`, the number of a plural."""
    place, tags, choice = start, TagFinder(value), CHOICE.search(value, start, end)
    braces = brace_ends(value, choice.start(), end) if choice else {}
    paired = paired_tags(value, start, end)
    last_quote = value.rfind("'", start, end) if choice or counts else start
    while place < end:
        match value[place]:
            case "{" if place in braces and CHOICE.match(value, place, end):
                yield place, braces[place], "choice"
                place = braces[place]
            case "<" if comment := COMMENT.match(value, place, end):
                yield place, comment.end(), "comment"
                place = comment.end()
            case "<" if (tag := tags.match(place, end)) and tag["name"][0].isalpha():
                closing = value.find(f"</{tag['name']}>", place, end) if tag["name"].lower() in CODE_TAGS else -1
                last = tag.end() if closing < 0 or tag["slash"] else closing + len(tag["name"]) + 3
                yield place, last, "tag" if last == tag.end() else "code"
                place = last
            case "<" if numbered := NUMBERED.match(value, place, end):
                kind = "placeholder" if place not in paired else "end" if numbered["slash"] else "pair"
                yield place, numbered.end(), kind
                place = numbered.end()
            case "'" if place < last_quote and value[place + 1] in "{}":  # quoted braces
                last = value.find("'", place + 1, end) + 1
                yield place, last, "placeholder"
                place = last
            case "&" if entity := ENTITY.match(value, place, end):
                yield place, entity.end(), "entity"
                place = entity.end()
            case "#" if counts:
                yield place, place + 1, "count"
                place += 1
            case _:
                place += 1


def find_choices(value: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of the ICU arguments with branches in a text; those inside others are not listed."""
    return ((first, last) for first, last, kind in _markup(value, start, end, counts=False) if kind == "choice")


def brace_ends(value: str, start: int, end: int) -> dict[int, int]:
    """The place after the closing brace for each opening brace of an ICU message that has one."""
    ends, opened, place = dict[int, int](), list[int](), start
    while place < end:
        match value[place]:
            case "'" if value[place + 1 : place + 2] in ("{", "}"):  # quoted braces
                closing = value.find("'", place + 1, end)
                place = end if closing < 0 else closing
            case "{":
                opened.append(place)
            case "}" if opened:
                ends[opened.pop()] = place + 1
        place += 1
    return ends


def choice_branches(value: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The name of each branch of an ICU argument, and the place of its text."""
    head = CHOICE.match(value, start, end)
    place = head.end() if head else end
    braces = brace_ends(value, place, end)
    while branch := BRANCH.match(value, place, end):
        brace = branch.end() - 1
        last = braces.get(brace)
        if last is None:
            return
        yield branch[0].strip("{ \n\t"), brace + 1, last - 1
        place = last


def unescape(
    raw: str, start: int, escapes: re.Pattern[str], replace: Callable[[re.Match[str]], str]
) -> tuple[str, list[int]]:
    """A text without its escapes, and the offset of each of its characters and of its end; `raw` is at `start`."""
    value, places, done = list[str](), list[int](), 0
    for found in escapes.finditer(raw):
        value.append(raw[done : found.start()])
        places += range(start + done, start + found.start())
        new = replace(found)
        value.append(new)
        places += [start + found.start()] * len(new)
        done = found.end()
    value.append(raw[done:])
    places += range(start + done, start + len(raw) + 1)
    return "".join(value), places
