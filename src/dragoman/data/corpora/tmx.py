"""Translation memories in TMX: sentence pairs of two languages, read in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.data.corpora.compression import OpenFile, open_binary, read_blocks
from dragoman.errors import DataError

if TYPE_CHECKING:
    from lxml import etree

LANGUAGE: Final = "{http://www.w3.org/XML/1998/namespace}lang"
CODE: Final = frozenset(("bpt", "ept", "ph", "it", "ut"))  # inline elements with codes of the original document


def read_tmx(
    path: Path, source: str, target: str, open_file: OpenFile = open_binary, may_be_empty: bool = False
) -> Iterator[tuple[str, str]]:
    """The units that have both languages, in order, as text without inline elements; line breaks become spaces.

    Regions are ignored where the file has others: "pt" finds "pt-BR".
    """
    from lxml import etree

    parser = etree.XMLPullParser(["end"], tag=("{*}tu", "{*}header"), resolve_entities=False, no_network=True)
    found = 0
    seen: set[str] = set()
    try:
        for block in read_blocks(path, open_file, utf16=True):
            parser.feed(block)
            for pair in take_units(parser, source, target, seen):
                found += 1
                yield pair
        parser.close()
    except etree.XMLSyntaxError as error:
        raise DataError(f"{path} is not well-formed TMX: {error.msg}", code="wrong_file_format") from None
    if not found and not may_be_empty:
        languages = ", ".join(sorted(seen)) or "none"
        raise DataError(
            f"{path} has no unit with both {source!r} and {target!r}; its languages are: {languages}", code="no_data"
        )


def take_units(parser: etree.XMLPullParser, source: str, target: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    """The pairs of the units that are complete; they are removed from the tree."""
    for _, element in parser.read_events():
        texts: dict[str, str] = {}
        for variant in element.iterchildren("{*}tuv"):
            code = variant.get(LANGUAGE) or variant.get("lang") or ""
            seen.add(code)
            segment = next(variant.iterchildren("{*}seg"), None)
            if segment is not None:
                texts.setdefault(normal_code(code), " ".join("".join(segment_text(segment)).split()))
        both = [pick(texts, code) for code in (source, target)]
        element.clear()
        while element.getprevious() is not None:
            del element.getparent()[0]
        if both[0] and both[1]:
            yield both[0], both[1]


def segment_text(element: etree._Element) -> Iterator[str]:
    """The text of a segment without the codes in it."""
    if element.text:
        yield element.text
    for child in element:
        if isinstance(child.tag, str) and child.tag.rpartition("}")[2] not in CODE:
            yield from segment_text(child)
        if child.tail:
            yield child.tail


def normal_code(code: str) -> str:
    """A language code in lower case with hyphens."""
    return code.strip().lower().replace("_", "-")


def pick(texts: dict[str, str], code: str) -> str:
    """The text of a language: that of the very code, or else of the same language with another region."""
    code = normal_code(code)
    same = [text for other, text in texts.items() if other.split("-")[0] == code.split("-")[0]]
    return texts.get(code) or next(iter(same), "")
