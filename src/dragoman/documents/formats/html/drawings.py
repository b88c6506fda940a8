"""Drawings and formulas in HTML: `<svg>` and `<math>`, whose elements are not those of HTML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from dragoman.documents.formats.html.elements import BLOCKS, DRAWINGS
from dragoman.documents.markup import Token, names

# elements that a drawing cannot have, so that it ends before them, as in browsers
OUTSIDE: Final = (BLOCKS - names("link script source style title track")) | names(
    "b big code em embed i img nobr ruby s small span strike strong sub sup tt u var"
)
WITH_HTML: Final = names("foreignobject desc title annotation-xml mi mn mo ms mtext")  # may have them inside


def mark_drawings(tokens: Iterable[Token], xml: bool) -> Iterator[tuple[Token, bool]]:
    """Each token, and whether it belongs to a drawing or a formula; one without an end tag gets one of no width."""
    name, depth, inside, place = "", 0, 0, 0
    for token in tokens:
        if depth and token.name in OUTSIDE and not inside and not xml:
            yield from [(Token("end", place, place, name), True)] * depth
            depth = 0
        if not depth and token.kind == "start" and token.name in DRAWINGS:
            name, inside = token.name, 0
        change = {"start": 1, "end": -1}.get(token.kind, 0)
        drawn = depth > 0
        if token.name == name:
            depth = max(0, depth + change)
        elif token.name in WITH_HTML:
            inside = max(0, inside + change)
        yield token, drawn or depth > 0
        place = token.end
    yield from [(Token("end", place, place, name), True)] * depth
