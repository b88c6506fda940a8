"""Language codes by the names of the files that a model was trained on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from dragoman.errors import SearchError
from dragoman.text.language_codes import normalize_language

COMPRESSED_SUFFIXES: Final = {".gz", ".xz", ".zst", ".bz2"}


def language_codes(names: Iterable[str]) -> tuple[str, ...]:
    """The code of each name such as `train.de.gz` or `de`, without repeats; empty if one is not a known language."""
    with suppress(SearchError):
        return tuple(dict.fromkeys(normalize_language(language_suffix(name)) for name in names))
    return ()


def language_suffix(name: str) -> str:
    """The last suffix of a file name before those of compression, as `de` of `train.de.gz`; of a bare word, itself."""
    suffixes = [suffix for suffix in Path(name).suffixes if suffix not in COMPRESSED_SUFFIXES]
    return suffixes[-1].removeprefix(".") if suffixes else name


def card_languages(card: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The languages in the heading of a card, `# train.en to train.de`, where models of format 1 have them."""
    with suppress(OSError, UnicodeDecodeError):
        if found := re.match(r"# (.+) to (.+)\n", card.read_text(encoding="utf-8")):
            return language_codes(found[1].split(", ")), language_codes(found[2].split(", "))
    return (), ()
