"""Inline elements of XLIFF and TMX: pairs around words, codes of the original document, and placeholders."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from dragoman.documents.formats.localization.inline_tags import add_tagged_text, closed_names
from dragoman.documents.markup import CDATA, Token, escape_xml, scan
from dragoman.documents.segment import MAX_DEPTH, Segment, SegmentBuilder, Target, render
from dragoman.documents.transfer.placeholders import PLACEHOLDER

InlineKind = Literal["pair", "open", "close", "code", "break", "protected"]
BREAK_TAG: Final = re.compile(r"\s*<br\s*/?>\s*", re.IGNORECASE)
DEPTH: Final = MAX_DEPTH - 4  # deeper markup is not moved


@dataclass(frozen=True)
class Inline:
    """What an inline element is.

    - "pair" encloses words.
    - "open" and "close" are two elements around words, with the same `link`; their content is code.
    - "code" stands for itself; with `shows`, a placeholder in the text.
    - "break" is a line break.
    - "protected" encloses text that is not translated.
    """

    kind: InlineKind
    link: str = ""
    shows: str = ""


Classify = Callable[[Token, str], Inline]  # of a start tag and the text inside the element


def read_inline(content: str, classify: Classify, key: str, *, collapse: bool = False) -> Segment:
    """The segment of XML content; it is not translated if its markup is nested too deeply."""
    return read_tokens(content, list(scan(content)), classify, key, collapse=collapse)


def read_tokens(
    content: str, tokens: Sequence[Token], classify: Classify, key: str, *, collapse: bool = False, counts: bool = False
) -> Segment:
    """The segment of some tokens of the content; with `counts`, # is protected, the number of a plural."""
    items = list_items(content, tokens, classify)
    matched, depth = match_links(items)
    builder = SegmentBuilder(collapse=collapse)
    closed = closed_names(plain_text(content, tokens))
    done = 0  # items before this index are done
    for index, (token, raw, inside, inline) in enumerate(items):
        if index < done:
            continue
        if token.kind == "text":
            add_tagged_text(builder, html.unescape(raw), escape_xml, closed, "escaped ", counts=counts)
        elif token.name == "choice":
            builder.add_protected(raw, raw, token.start, "{count}")  # masked by a number, as most of them are
        elif token.kind == "other":
            if raw.startswith(CDATA):
                add_tagged_text(builder, raw[len(CDATA) : -3], escape_xml, closed, "escaped ")
            else:
                builder.add_point(raw)
        elif token.kind == "end":
            builder.close_pair(raw, token.name)
        elif inline is None or inline.kind == "pair":
            builder.open_pair(raw, name=token.name)
        elif inline.kind in ("open", "close") and index in matched:
            if inline.kind == "open" and token.get("translate") == "no":
                done = 1 + next(i for i in sorted(matched) if i > index and links_to(items[i], inline))
                text = "".join(plain_text(content, [one[0]]) for one in items[index:done])
                builder.add_protected(text, "".join(one[1] for one in items[index:done]), name=token.name)
            elif inline.kind == "open":
                builder.open_pair(raw, name=f"#{inline.link}")
            else:
                builder.close_pair(raw, f"#{inline.link}")
        elif inline.kind == "protected":
            builder.add_protected(inside, raw, name=token.name)
        elif inline.kind == "break":
            builder.add_point(raw, name="br")
            end = token.start + len(raw)
            builder.separate_words("br", content[end : end + 1])
        elif inline.shows:
            builder.add_protected(inline.shows, raw, name=inline.shows)
        else:
            builder.add_point(raw, name=token.name)
    return replace(builder.build(key, depth <= DEPTH), bilingual=True, program=True)


Item = tuple[Token, str, str, Inline | None]  # a token, its text or that of its whole element, what is inside, its kind


def list_items(content: str, tokens: Sequence[Token], classify: Classify) -> list[Item]:
    """Text and markup in order; an element that is not a pair is one item."""
    items, i = list[Item](), 0
    while i < len(tokens):
        token, last = tokens[i], i
        inside, inline = "", None
        if token.kind in ("start", "empty"):
            end = element_end(tokens, i)
            inside = plain_text(content, tokens[i + 1 : end])
            inline = classify(token, inside)
            if inline.kind != "pair" or token.kind == "empty":
                last = end
                inline = replace(inline, kind="code") if inline.kind == "pair" else inline
        items.append((token, content[token.start : tokens[last].end], inside, inline))
        i = last + 1
    return items


def links_to(item: Item, opening: Inline) -> bool:
    """Whether an item closes what another one opens."""
    inline = item[3]
    return inline is not None and inline.kind == "close" and inline.link == opening.link


def match_links(items: Sequence[Item]) -> tuple[set[int], int]:
    """The items that open and close properly nested pairs of codes, and the greatest depth."""
    matched: set[int] = set()
    stack: list[tuple[int, str]] = []
    deepest = 0
    for index, (token, _, _, inline) in enumerate(items):
        if token.kind == "end":
            while stack and stack.pop()[0] >= 0:
                pass
        elif inline is not None and inline.kind == "pair":
            stack.append((-1, ""))
        elif inline is not None and inline.kind == "open":
            stack.append((index, inline.link))
        elif inline is not None and inline.kind == "close" and stack and stack[-1][0] >= 0:
            if stack[-1][1] == inline.link:
                matched |= {stack.pop()[0], index}
            elif any(link == inline.link for _, link in stack):  # overlapping: neither is a pair
                stack = [one for one in stack if one[1] != inline.link or one[0] < 0]
        deepest = max(deepest, len(stack))
    return matched, deepest


def element_end(tokens: Sequence[Token], index: int) -> int:
    """The index of the end tag of the element that starts at an index."""
    if tokens[index].kind == "empty":
        return index
    depth = 0
    for last in range(index, len(tokens)):
        depth += {"start": 1, "end": -1}.get(tokens[last].kind, 0)
        if depth == 0:
            return last
    return len(tokens) - 1


def plain_text(content: str, tokens: Sequence[Token]) -> str:
    """The text of tokens without markup."""
    pieces = []
    for token in tokens:
        raw = content[token.start : token.end]
        if token.kind == "text":
            pieces.append(html.unescape(raw))
        elif raw.startswith(CDATA):
            pieces.append(raw[len(CDATA) : -3])
    return "".join(pieces)


def is_line_break(token: Token, inside: str) -> bool:
    """Whether an element stands for a line break: its type says so, or the tag of the original is <br>."""
    types = {token.get("ctype"), token.get("type"), token.get("subType")}
    texts = inside, token.get("equiv-text"), token.get("disp")
    return not types.isdisjoint(("lb", "xlf:lb")) or any(BREAK_TAG.fullmatch(text or "") for text in texts)


def placeholder(*candidates: str | None) -> str:
    """The first candidate that is a placeholder such as %s or {name}, or an empty string."""
    stripped = (one.strip() for one in candidates if one)
    return next((one for one in stripped if PLACEHOLDER.fullmatch(one)), "")


def render_xml(content: Segment | Target) -> str:
    """Text and spans as XML."""
    return render(content, escape_xml)
