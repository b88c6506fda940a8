"""Tags and text of well-formed XML without a document type, found by a pattern: much faster than what Expat calls.

Most words of a document are in plain runs: elements with nothing but properties and one text. Neighbors with the same
properties, which an office suite has divided because somebody edited the text, are one piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, Literal, NamedTuple

from dragoman.documents.formats.office.archive import unsafe
from dragoman.documents.formats.office.xml.events import MAX_DEPTH, NAMESPACES, Kind
from dragoman.documents.markup import Names

# Tags that others follow: they have no > in their attributes, because a quoted < would not be well formed.
OPENING: Final = r"<[^<>/!?][^<>]*+(?<!/)>"
EMPTY: Final = r"<[^<>/!?][^<>]*+(?<=/)>"
CLOSING: Final = r"</[^<>\s]+>"
PREFIX: Final = r"(?:[^<>/!?:\s]+:)?"
END_OF_TAG: Final = r"(?:\s[^<>]*+)?(?<!/)>"
# Runs and texts have these names in all formats of Office Open XML. More in a row than MANY would take much memory.
MANY: Final = "{0,99}"
TEXT: Final = rf"<{PREFIX}t{END_OF_TAG}"
PLAIN: Final = r"[^<>]*+"  # without >, which may be in an attribute of the tag before it
PROPERTY: Final = rf"(?:{EMPTY}|{OPENING}(?:{EMPTY}){MANY}{CLOSING})"
HEAD: Final = rf"(?:{EMPTY}|{OPENING}{PROPERTY}{MANY}{CLOSING})?{TEXT}"
RUN: Final = rf"<(?P<run>{PREFIX}r){END_OF_TAG}(?P<head>{HEAD}){PLAIN}(?P<ends>{CLOSING}{CLOSING})"
PIECE: Final = r"""
    (?P<end></[^>]*>)
  | <(?P<name>[^<>/!?\s][^/>\s]*)(?P<attributes>[^<>]*+(?=><)|[^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*)>
  | (?P<text>[^<]+|<!\[CDATA\[.*?\]\]>)
  | <!--.*?--> | <\?.*?\?>
"""
PIECES: Final = re.compile(PIECE, re.VERBOSE | re.DOTALL)
SINGLE_RUNS: Final = re.compile(RUN)
RUNS_AND_PIECES: Final = re.compile(
    rf"{RUN}(?P<others>(?:<{PREFIX}r{END_OF_TAG}(?P=head){PLAIN}(?P=ends)){MANY}) | {PIECE}", re.VERBOSE | re.DOTALL
)
RUN_TEXTS: Final = re.compile(rf"{TEXT}([^<]*+)")  # the raw text of each plain run
ATTRIBUTE: Final = re.compile(r"""([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
LINE_END: Final = re.compile(r"\r\n?")
SPACE: Final = re.compile(r"\r\n|[\t\r\n]")
REFERENCE: Final = re.compile(r"&(?:#x([0-9a-fA-F]+)|#([0-9]+)|(\w+));")
ENTITIES: Final = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}
MAX_TAGS: Final = 4096  # different ones that are remembered in each scope
MAX_SCOPES: Final = 256  # that are remembered


class RunNames(NamedTuple):
    """The elements around and in plain runs, and those with a meaning of their own, which no plain run has inside."""

    parents: Names = frozenset()
    runs: Names = frozenset()
    properties: Names = frozenset()
    texts: Names = frozenset()
    others: Names = frozenset()


@dataclass(frozen=True, eq=False, slots=True)
class Head:
    """What is in a plain run before its characters: properties, and the start tag of the text."""

    properties_size: int
    size: int
    attributes: Mapping[str, str]  # of the text


class Scope:
    """What prefixes stand for somewhere in a part, and what was found there: most tags occur often."""

    def __init__(self, run_names: RunNames, declared: Iterable[tuple[str, str]] = (), around: Scope | None = None):
        self.run_names, self.addresses, self.around = run_names, dict(declared), around
        self.name = lru_cache(MAX_TAGS)(self._name)
        self.attributes = lru_cache(MAX_TAGS)(self._attributes)
        self.head = lru_cache(MAX_TAGS)(self._head)

    def _name(self, raw: str) -> str:
        """The name of an element with a known prefix."""
        prefix, _, local = raw.rpartition(":")
        scope: Scope | None = self
        while scope is not None and prefix not in scope.addresses:
            scope = scope.around
        address = "" if scope is None else scope.addresses[prefix]
        return f"{NAMESPACES.get(address, address)}:{local}" if address else raw  # without one, or with xml:

    def _attributes(self, raw: str) -> Mapping[str, str]:
        """The attributes of a tag, with known prefixes."""
        found = ATTRIBUTE.findall(raw)
        if "xmlns" in raw:
            found = [one for one in found if not declares(one[0])]
        if "&" in raw or not raw.isprintable():
            found = [(key, attribute_value(double or single), "") for key, double, single in found]
        return {self.name(key) if ":" in key else key: double or single for key, double, single in found}

    def inside(self, raw: str) -> Scope:
        """The scope of a tag with these attributes."""
        found = ATTRIBUTE.findall(raw)
        declared = [(key[6:], attribute_value(double or single)) for key, double, single in found if declares(key)]
        return Scope(self.run_names, declared, self) if declared else self

    def _head(self, raw: str) -> Head | None:
        """What is in a plain run before its characters; None if it is something else."""
        tags = list(PIECES.finditer(raw))
        if "xmlns" in raw or len(RUN_TEXTS.findall(raw)) > 1:
            return None
        found = [self.name(tag["name"]) for tag in tags if tag["name"]]
        names = self.run_names
        if found[-1] not in names.texts or not names.others.isdisjoint(found):
            return None
        if len(found) > 1 and found[0] not in names.properties:
            return None
        text = tags[-1]
        return Head(text.start(), len(raw), self.attributes(text["attributes"]))

    def find_head(self, run: re.Match[str]) -> Head | None:
        """The head of plain runs that were found; None if they are something else, or declare prefixes."""
        if self.name(run["run"]) not in self.run_names.runs or "xmlns" in run[0]:
            return None
        return self.head(run["head"])


# A tag, text or plain runs: kind, start, end, name, what reads the attributes, the characters of text, and the runs.
# The end tag of an element that closes itself is empty.
Piece = tuple[
    Kind | Literal["runs"],
    int,
    int,
    str,
    Callable[[], Mapping[str, str]],
    str,
    tuple[re.Match[str], Scope, Head] | None,
]


def scan(text: str, name: str, run_names: RunNames) -> Iterator[Piece]:
    """The pieces of a well-formed part without a document type; `name` is for messages."""
    return scan_range(text, name, 0, len(text), Scope(run_names), RUNS_AND_PIECES if run_names.texts else PIECES)


def scan_range(
    text: str, name: str, start: int, end: int, scope: Scope, pattern: re.Pattern[str] = PIECES, depth: int = 0
) -> Iterator[Piece]:
    """The pieces of `text[start:end]`, which begins in a scope at some depth."""
    inside = lru_cache(MAX_SCOPES)(Scope.inside)
    scopes: list[Scope] = []  # around the elements that are open
    texts, first = list[str](), 0  # neighbors, and where they start
    for found in pattern.finditer(text, start, end):
        kind, (start, end) = found.lastgroup, found.span()
        if kind == "text":
            first = first if texts else start
            texts.append(text_value(found[0]))
            continue
        if texts:
            yield "text", first, start, "", dict, "".join(texts), None
            texts.clear()
        if kind == "others":
            head = scope.find_head(found)
            if head is not None and depth + len(scopes) + 4 <= MAX_DEPTH:
                yield "runs", start, end, "", dict, "", (found, scope, head)
            else:
                yield from scan_range(text, name, start, end, scope, PIECES, depth + len(scopes))
        elif kind == "end":
            scope = scopes.pop()
            yield "end", start, end, "", dict, "", None
        elif kind == "attributes":
            if depth + len(scopes) == MAX_DEPTH:
                raise unsafe(name, f"elements are nested more than {MAX_DEPTH} deep")
            raw_name, raw = found.group("name", "attributes")
            own = inside(scope, raw) if "xmlns" in raw else scope
            yield "start", start, end, own.name(raw_name), partial(own.attributes, raw) if raw else dict, "", None
            if raw.endswith("/"):
                yield "end", end, end, "", dict, "", None
            else:
                scopes.append(scope)
                scope = own


def declares(attribute: str) -> bool:
    """Whether an attribute declares a prefix, or what names without one stand for."""
    return attribute == "xmlns" or attribute.startswith("xmlns:")


def attribute_value(raw: str) -> str:
    """The characters of the value of an attribute."""
    return REFERENCE.sub(character, SPACE.sub(" ", raw))


def text_value(raw: str) -> str:
    """The characters of text, or of a section without references."""
    if "\r" in raw:
        raw = LINE_END.sub("\n", raw)
    if raw.startswith("<"):
        return raw[len("<![CDATA[") : -len("]]>")]
    return REFERENCE.sub(character, raw) if "&" in raw else raw


def character(reference: re.Match[str]) -> str:
    """The character that a reference stands for."""
    base16, base10, name = reference.groups()
    return ENTITIES[name] if name else chr(int(base16, 16) if base16 else int(base10))
