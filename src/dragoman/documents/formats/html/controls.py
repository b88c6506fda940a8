"""Labels, links and buttons that stand side by side in HTML: each is a sentence of its own, or none.

`<label>First name</label> <input> <label>Last name</label>` is not a sentence, and nor are the buttons of a form. They
are divided only if there is no text around them that they could be parts of. Where a field follows its label, other
elements are sentences of their own too, such as a hint after the field.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import Final

from dragoman.documents.formats.html.elements import DRAWINGS, FIELDS, INLINE, end_tags, is_blank, is_control
from dragoman.documents.markup import Token
from dragoman.documents.transfer.masks import LETTER

AFTER_LABEL: Final = re.compile(r"[\s:*]*")  # * for what must be filled in


def divide_controls(tokens: list[Token], text: str, is_copied: Callable[[Token], bool]) -> Iterator[list[Token]]:
    """The inline content of a block, divided between its labels, links and buttons if it has nothing else to read.

    Elements that are not translated (`is_copied`) are not divided.
    """
    n_controls = sum(token.kind == "start" and is_control(token.name) for token in tokens)
    if n_controls == 0 or (n_controls == 1 and not has_labeled_field(tokens, text)):  # nearly all blocks
        yield tokens
        return
    ends = end_tags(tokens)
    lettered = (one.kind == "text" and LETTER.search(text, one.start, one.end) is not None for one in tokens)
    n_lettered = [*accumulate(lettered, initial=0)]
    cuts, inner = [0, len(tokens)], [(0, len(tokens))]
    while inner:
        controls = find_controls(tokens, text, ends, is_copied, *inner.pop())
        read = [(start, end) for start, end in controls if n_lettered[start] < n_lettered[end]]
        if len(read) > 1:
            cuts += [place for control in read for place in control]
        inner += [(start + 1, end - 1) for start, end in read if not is_copied(tokens[start])]
    yield from (tokens[start:end] for start, end in pairwise(sorted(set(cuts))))


def find_controls(
    tokens: list[Token], text: str, ends: dict[int, int], is_copied: Callable[[Token], bool], index: int, last: int
) -> list[tuple[int, int]]:
    """The labels, links and buttons among these tokens, each with the text after it; none if there is other text."""
    found = list[tuple[int, int]]()
    in_form = has_labeled_field(tokens[index:last], text)
    while index < last:
        token = tokens[index]
        index += 1
        if token.kind == "start" and token.name in DRAWINGS:
            index = ends.get(index - 1, index - 1) + 1
        elif (
            token.kind == "start"
            and (is_control(token.name) or (in_form and token.name in INLINE))
            and (end := ends.get(index - 1, last)) < last
        ):
            after = tokens[end + 1] if end + 1 < last else None
            found.append((index - 1, end + 1))
            index = end + 1
            if after is not None and after.kind == "text" and is_after_label(after, text):
                found[-1] = found[-1][0], end + 2
                index += 1
        elif token.kind == "start" and is_copied(token):
            end = ends.get(index - 1, index)
            if any(is_text(one, text) for one in tokens[index:end]):
                return []
            index = max(index, end)
        elif is_text(token, text):
            return []
    return found


def has_labeled_field(tokens: list[Token], text: str) -> bool:
    """Whether a field follows a label, with nothing to read between them."""
    after_label = False
    for token in tokens:
        if token.name == "label":
            after_label = token.kind == "end"
        elif token.kind == "text" and LETTER.search(text, token.start, token.end):
            after_label = False
        elif after_label and token.kind != "end" and token.name in FIELDS:
            return True
    return False


def is_text(token: Token, text: str) -> bool:
    """Whether there is something to read between two controls."""
    return token.kind in ("text", "other") and not (is_after_label(token, text) or is_blank(token, text))


def is_after_label(token: Token, text: str) -> bool:
    """Whether a text is nothing but white space, or marks after a label."""
    return AFTER_LABEL.fullmatch(html.unescape(text[token.start : token.end])) is not None
