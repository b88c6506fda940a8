"""ICU messages in XML: the text of each branch is a segment, with inline elements and escaped tags as elsewhere."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dragoman.documents.formats.localization.xml_inline import Classify, list_items, read_tokens
from dragoman.documents.formats.strings.messages import (
    MAX_NESTING,
    BranchSlot,
    MessageSlot,
    choice_branches,
    find_choices,
)
from dragoman.documents.markup import CDATA, Token, escape_xml, scan
from dragoman.documents.spliced import Slot, SplicedText
from dragoman.documents.transfer.masks import LETTER


def read_message(content: str, classify: Classify, key: str) -> SplicedText | None:
    """XML content with ICU branches, as a text with slots; None if it has no branches."""
    tokens = list(scan(content))
    if any(content.startswith(CDATA, token.start) for token in tokens):
        content = "".join(escape_cdata(content[token.start : token.end]) for token in tokens)
        tokens = list(scan(content))
    items = list_items(content, tokens, classify)
    text = "".join(raw if token.kind == "text" else " " * len(raw) for token, raw, _, _ in items)
    if next(find_choices(text, 0, len(text)), None) is None:
        return None
    return SplicedText(content, list(message_slots(content, text, tokens, classify, key, 0, len(content), 0)))


def escape_cdata(raw: str) -> str:
    """The content of a CDATA section as text; all else as it is."""
    return escape_xml(raw[len(CDATA) : -3]) if raw.startswith(CDATA) else raw


def message_slots(
    content: str, text: str, tokens: Sequence[Token], classify: Classify, key: str, start: int, end: int, depth: int
) -> Iterator[Slot]:
    """The slot of `content[start:end]`, and those of the branches inside it; `text` is the content without elements."""
    choices = list(find_choices(text, start, end))
    own = cut_tokens(tokens, start, end, choices)
    segment = read_tokens(content, own, classify, key, counts=depth > 0)
    if LETTER.search(segment.text):
        slot = BranchSlot if depth else MessageSlot
        yield slot(start, end, segment, escape_xml)
    for first, last in choices if depth < MAX_NESTING else ():
        low = bisect_right(tokens, first, key=lambda token: token.end)
        inside = tokens[low : bisect_left(tokens, last, key=lambda token: token.start)]
        for name, begin, stop in choice_branches(text, first, last):
            yield from message_slots(content, text, inside, classify, f"{key}[{name}]", begin, stop, depth + 1)


def cut_tokens(tokens: Sequence[Token], start: int, end: int, choices: Sequence[tuple[int, int]]) -> list[Token]:
    """The tokens from `start` to `end`, with each of the choices, which begin and end in texts, as one token."""
    found, place, rest = list[Token](), start, iter([*choices, (end, end)])
    first, last = next(rest)
    for token in tokens:
        while place < min(token.end, end):
            if place >= first:
                found.append(Token("other", first, last, "choice"))
                place = last
                first, last = next(rest)
                continue
            low, high = max(token.start, place), min(token.end, first)
            found.append(replace(token, start=low, end=high))
            place = high
    return found
