"""The languages of a model, as its card and the names of its files tell them."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from dragoman.errors import SearchError
from dragoman.text.language_codes import language_of

PACKED: Final = {".gz", ".xz", ".zst", ".bz2"}


def of_card(directory: Path) -> tuple[str, str] | None:
    """The codes at the ends of the files that a model's card says it was trained on."""
    title = titled(directory)
    return codes(*(ending(file) for file in title)) if title is not None else None


def sources_of_card(directory: Path) -> tuple[str, ...]:
    """The codes of all sources that the card names; none where one of them tells no language."""
    title = titled(directory)
    with suppress(SearchError):
        return tuple(dict.fromkeys(language_of(ending(file)) for file in title[0].split(", "))) if title else ()
    return ()


def titled(directory: Path) -> tuple[str, str] | None:
    """What the card's title says it translates from and to."""
    with suppress(OSError, UnicodeDecodeError):
        found = re.match(r"# (.+) to (.+)\n", (directory / "card.md").read_text(encoding="utf-8"))
        return (found[1], found[2]) if found is not None else None
    return None


def codes(source: str, target: str) -> tuple[str, str] | None:
    """Two codes, where both are codes of languages."""
    with suppress(SearchError):
        return language_of(source), language_of(target)
    return None


def ending(file: str) -> str:
    """The end of a file's name that tells its language, as the de of train.de.gz; of a bare word, the word."""
    suffixes = [suffix for suffix in Path(file).suffixes if suffix not in PACKED]
    return suffixes[-1].removeprefix(".") if suffixes else file
