"""Write text as Markdown that is nothing but text: in paragraphs, cells and titles."""

from __future__ import annotations

import re
from typing import Final

from dragoman.documents.transfer.placeholders import find_placeholders

UNSAFE: Final = frozenset("\\`*")  # markup even in a placeholder, such as a path or code
SPECIAL: Final = re.compile(r"[\\`*\[<]|~~|(?<!\w)_+|(?<!_)_++(?![^\W_])|&(?=#?\w+;)|!(?=\[)")
BLOCK_START: Final = re.compile(
    r"(?:[-+](?=\s|$)|#{1,6}(?=\s|$)|>|=+\s*$|-{3,}\s*$|~~~|\||:{3})|\d{1,9}(?=[.)](?:\s|$))"
)


def escape(text: str) -> str:
    """Text with a backslash before what would be markup, except in placeholders and URLs."""
    pieces, place = list[str](), 0
    as_they_are = (place for place in find_placeholders(text) if UNSAFE.isdisjoint(text[slice(*place)]))
    for start, end in [*as_they_are, (len(text), len(text))]:
        pieces.append(SPECIAL.sub(escape_one, text[place:start]))
        pieces.append(text[start:end])
        place = end
    return "".join(pieces)


def escape_one(found: re.Match[str]) -> str:
    """What would be markup, as text; of underscores, each would be."""
    return "&amp;" if found[0] == "&" else found[0].replace("_", "\\_") if found[0][0] == "_" else f"\\{found[0]}"


def escape_cell(text: str) -> str:
    """Text in a cell of a table."""
    return escape(text).replace("|", "\\|")


def escape_title(text: str, marks: str) -> str:
    """The title of a link, in which these characters and entities would be markup."""
    return re.sub(rf"[\\{re.escape(marks)}]|&(?=#?\w+;)", lambda found: "\\" + found[0], text)


def protect_start(text: str) -> str:
    """A paragraph that does not begin like a list, a heading or a quote."""
    found = BLOCK_START.match(text)
    if found is None:
        return text
    return f"{found[0]}\\{text[found.end() :]}" if found[0].isdecimal() else f"\\{text}"
