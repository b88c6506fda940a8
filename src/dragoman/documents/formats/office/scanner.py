"""Tags and text of well-formed XML without a document type, found by a pattern: much faster than what Expat calls.

Most words of a document are in plain runs: elements with nothing but properties and one text. Neighbors with the same
properties, which an office suite has divided because somebody edited the text, are one piece.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from dragoman.documents.formats.office.archive import unsafe
from dragoman.documents.formats.office.xml_events import MAX_DEPTH, NAMESPACES, NO_ATTRIBUTES, Kind
from dragoman.documents.markup import Names

# Tags that others follow: they have no > in their attributes, because a quoted < would not be well formed.
OPENING: Final = r"<[^<>/!?][^<>]*+(?<!/)>"
EMPTY: Final = r"<[^<>/!?][^<>]*+(?<=/)>"
CLOSING: Final = r"</[^<>\s]+>"
HEAD: Final = rf"(?:{EMPTY}|{OPENING}(?:{EMPTY})*+{CLOSING})?{OPENING}"
MARKUP: Final = r"""
    (?P<end></[^>]*>)
  | (?P<tag><[^<>/!?][^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*>)
  | (?P<text>(?:[^<]+|<!\[CDATA\[.*?\]\]>)+)
  | <!--.*?--> | <\?.*?\?>
"""
PIECE: Final = re.compile(MARKUP, re.VERBOSE | re.DOTALL)
RUN: Final = rf"(?P<run>{OPENING})(?P<head>{HEAD})[^<]*+(?P<ends>{CLOSING}{CLOSING})"
SINGLE_RUN: Final = re.compile(RUN)
RUNS_OR_PIECE: Final = re.compile(
    rf"{RUN}(?P<others>(?:{OPENING}(?P=head)[^<]*+(?P=ends))*+) | {MARKUP}", re.VERBOSE | re.DOTALL
)
RUN_TEXT: Final = re.compile(r">([^<]*+)</[^<>]++></")  # the raw text of a plain run
NAME: Final = re.compile(r"[^\s/>]+")
ATTRIBUTE: Final = re.compile(r"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
CDATA: Final = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
LINE_END: Final = re.compile(r"\r\n?")
SPACE: Final = re.compile(r"\r\n|[\t\r\n]")
REFERENCE: Final = re.compile(r"&(?:#x([0-9a-fA-F]+)|#([0-9]+)|(\w+));")
ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
MAX_TAGS: Final = 1 << 14  # different ones that are remembered


class RunNames(NamedTuple):
    """The elements around and in plain runs, and those with a meaning of their own, which no plain run has inside."""

    parents: Names = frozenset()
    runs: Names = frozenset()
    properties: Names = frozenset()
    texts: Names = frozenset()
    others: Names = frozenset()


class Tag(NamedTuple):
    """A start tag: its name and attributes with known prefixes, the scope inside it, and the sizes of both tags."""

    name: str
    attributes: Mapping[str, str]
    scope: Scope
    size: int
    end_size: int  # 0 if the tag closes itself


@dataclass(frozen=True, eq=False, slots=True)
class Head:
    """What is in a plain run before its characters: properties of some size, and the start tag of the text."""

    properties_size: int
    size: int
    text: Tag


Start = tuple[Tag, Head]  # of a plain run
# A tag, text or plain runs: kind, start, end, name, attributes and characters, and what the first run begins with. The
# end tag of an element that closes itself is empty.
Piece = tuple[Kind | Literal["runs"], int, int, str, Mapping[str, str], str, Start | None]


class Scope:
    """What prefixes stand for somewhere in a part, and the tags that were found there: most occur often."""

    def __init__(self, run_names: RunNames, addresses: Mapping[str, str], around: Scope | None = None) -> None:
        self.run_names, self.addresses, self.around = run_names, addresses, around
        self.tag = lru_cache(MAX_TAGS)(self._tag)
        self.head = lru_cache(MAX_TAGS)(self._head)

    def _tag(self, raw: str) -> Tag:
        """What a start tag says."""
        found = ATTRIBUTE.findall(raw)
        declared = {
            name[6:]: attribute_value(double or single)
            for name, double, single in found
            if name == "xmlns" or name.startswith("xmlns:")
        }
        scope = Scope(self.run_names, declared, self) if declared else self
        attributes = {
            scope.known_name(name) if ":" in name else name: attribute_value(double or single)
            for name, double, single in found
            if name != "xmlns" and not name.startswith("xmlns:")
        }
        name = raw_name(raw)
        end_size = 0 if raw.endswith("/>") else len(f"</{name}>")
        return Tag(scope.known_name(name), attributes or NO_ATTRIBUTES, scope, len(raw), end_size)

    def _head(self, raw: str) -> Head | None:
        """What is in a plain run before its characters; None if it is something else."""
        raws = [end or tag for end, tag, _ in PIECE.findall(raw)]
        if "xmlns" in raw or "".join(raws) != raw:  # a > in the last tag
            return None
        *properties, text = [self.tag(one) for one in raws if not one.startswith("</")]
        names = self.run_names
        if (
            text.name not in names.texts
            or (properties and properties[0].name not in names.properties)
            or not names.others.isdisjoint(tag.name for tag in (*properties, text))
        ):
            return None
        return Head(len(raw) - text.size, len(raw), text)

    def start(self, run: re.Match[str]) -> Start | None:
        """What a plain run begins with; None if it is something else."""
        tag, head = self.tag(run["run"]), self.head(run["head"])
        return (tag, head) if head is not None and tag.name in self.run_names.runs and tag.scope is self else None

    def known_name(self, name: str) -> str:
        """A name with a known prefix."""
        prefix, _, local = name.rpartition(":")
        if prefix == "xml":
            return name
        scope: Scope | None = self
        while scope is not None and prefix not in scope.addresses:
            scope = scope.around
        address = scope.addresses[prefix] if scope is not None else ""
        return f"{NAMESPACES.get(address, address)}:{local}" if address else local


def scan(text: str, name: str, run_names: RunNames) -> Iterator[Piece]:
    """The pieces of a well-formed part without a document type; `name` is for messages."""
    return scan_range(text, name, 0, len(text), Scope(run_names, {}), RUNS_OR_PIECE if run_names.texts else PIECE)


def scan_range(
    text: str, name: str, start: int, end: int, scope: Scope, pattern: re.Pattern[str] = PIECE
) -> Iterator[Piece]:
    """The pieces of `text[start:end]`, which begins in a scope."""
    scopes: list[Scope] = []  # around the elements that are open
    for one in pattern.finditer(text, start, end):
        several: Iterable[re.Match[str]] = (one,)
        if one.lastgroup == "others":
            first = scope.start(one)
            if first is not None and len(scopes) + 3 <= MAX_DEPTH and "xmlns" not in one["others"]:
                start, end = one.span()
                yield "runs", start, end, "", NO_ATTRIBUTES, "", first
                continue
            several = PIECE.finditer(text, *one.span())
        for found in several:
            start, end = found.span()
            match found.lastgroup:
                case "tag":
                    tag = scope.tag(found[0])
                    if len(scopes) == MAX_DEPTH:
                        raise unsafe(name, f"elements are nested more than {MAX_DEPTH} deep")
                    yield "start", start, end, tag.name, tag.attributes, "", None
                    if tag.end_size:
                        scopes.append(scope)
                        scope = tag.scope
                    else:
                        yield "end", end, end, "", NO_ATTRIBUTES, "", None
                case "end":
                    scope = scopes.pop()
                    yield "end", start, end, "", NO_ATTRIBUTES, "", None
                case "text":
                    yield "text", start, end, "", NO_ATTRIBUTES, text_value(found[0]), None


def raw_name(tag: str) -> str:
    """The name in a tag."""
    found = NAME.match(tag, 1)
    return found[0] if found else ""


def attribute_value(raw: str) -> str:
    """The characters of the value of an attribute."""
    return REFERENCE.sub(character, SPACE.sub(" ", raw))


def text_value(raw: str) -> str:
    """The characters of text."""
    if "\r" in raw:
        raw = LINE_END.sub("\n", raw)
    if "<" in raw:  # a section of characters, which has no references
        parts = CDATA.split(raw)
        parts[::2] = [REFERENCE.sub(character, part) for part in parts[::2]]
        return "".join(parts)
    return REFERENCE.sub(character, raw) if "&" in raw else raw


def character(reference: re.Match[str]) -> str:
    """The character that a reference stands for."""
    base16, base10, name = reference.groups()
    return ENTITIES[name] if name else chr(int(base16, 16) if base16 else int(base10))
