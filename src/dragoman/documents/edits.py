"""Replace parts of a text at once; everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterable

Edit = tuple[int, int, str]  # start, end, and the new text; start == end inserts


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """The text with edits, which do not overlap; insertions at one place stay in the order in which they are given."""
    pieces, place = [], 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        pieces += [text[place:start], new]
        place = end
    return "".join([*pieces, text[place:]])
