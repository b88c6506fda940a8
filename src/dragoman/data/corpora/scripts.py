"""The scripts that sentences are written in, from the Unicode names of their letters."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt

from dragoman.errors import DataError
from dragoman.values import suggest

# Languages written in more than one script, and names that people use for one; the rest are Unicode's own.
ALIASES = {
    "HAN": frozenset({"CJK"}),
    "CHINESE": frozenset({"CJK"}),
    "JAPANESE": frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}),
    "KOREAN": frozenset({"HANGUL", "CJK"}),
}


@cache
def letters() -> tuple[tuple[str, ...], npt.NDArray[np.uint16]]:
    """The names of all scripts, and for each code point the index of its script; 0 for what is not a letter."""
    names = {"": 0}
    table = np.zeros(sys.maxunicode + 1, np.uint16)
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        if character.isalpha():
            # "LATIN SMALL LETTER A", "CJK UNIFIED IDEOGRAPH-4E00": the first word is the script
            script = unicodedata.name(character, "UNNAMED").split()[0]
            table[code] = names.setdefault(script, len(names))
    return tuple(names), table


def large_scripts() -> list[str]:
    """The names of scripts with several letters; a sign such as Kelvin's is the only letter of its own."""
    names, table = letters()
    sizes = np.bincount(table, minlength=len(names))
    return [name for name, size in zip(names[1:], sizes[1:], strict=True) if size > 4]


def count_letters(texts: Sequence[str]) -> dict[str, int]:
    """The number of letters of each script in the texts."""
    names, table = letters()
    found = np.bincount(table[code_points(texts)], minlength=len(names))
    return {names[i]: int(found[i]) for i in np.flatnonzero(found) if i}


def detect_scripts(texts: Sequence[str]) -> frozenset[str]:
    """The script of most letters, with those that are mixed with it; empty if there are no letters."""
    found = count_letters(texts)
    if not found:
        return frozenset()
    kana = found.get("HIRAGANA", 0) + found.get("KATAKANA", 0)
    if kana > 0.1 * sum(found.values()):
        return ALIASES["JAPANESE"]
    script = max(found, key=lambda name: found[name])
    return ALIASES["KOREAN"] if script == "HANGUL" else frozenset({script})


def parse_script(script: str) -> frozenset[str]:
    """The scripts of a name such as "latin" or "japanese"."""
    name = script.upper()
    if name in ALIASES:
        return ALIASES[name]
    names = letters()[0]
    if name not in names or not name:
        known = [each.lower() for each in [*ALIASES, *large_scripts()]]
        hint = suggest(script, known)
        if len(hint) > 200:
            hint = "; use 'auto', 'off', or a script's name in Unicode such as latin, cyrillic, greek, arabic, japanese"
        raise DataError(f"unknown script {script!r}{hint}", code="unknown_choice")
    return frozenset({name})


def expected_share(texts: Sequence[str], scripts: frozenset[str]) -> npt.NDArray[np.float64]:
    """For each text, the share of its letters that are in `scripts`; 1 if it has no letters, or without scripts.

    Letters count by their UTF-8 bytes: one Chinese character says about what three Latin letters say.
    """
    shares = np.ones(len(texts))
    if not scripts:
        return shares
    # A text of ASCII alone holds no letters but Latin ones, and most text in this field is that.
    checked = [i for i, text in enumerate(texts) if text and not ("LATIN" in scripts and text.isascii())]
    if not checked:
        return shares
    chosen = [texts[i] for i in checked]
    points = code_points(chosen)
    ends = np.cumsum([len(text) for text in chosen])
    in_all, in_scripts = (sum_per_text(table[points], ends) for table in letter_weights(scripts))
    shares[checked] = np.where(in_all > 0, in_scripts / np.maximum(in_all, 1), 1.0)
    return shares


@lru_cache(8)
def letter_weights(scripts: frozenset[str]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """For each code point, its UTF-8 bytes if it is a letter, and if it is a letter of `scripts`; else 0."""
    names, table = letters()
    points = np.arange(len(table))
    size = (1 + (points >= 0x80) + (points >= 0x800) + (points >= 0x10000)).astype(np.uint8)
    indices = [names.index(script) for script in scripts if script in names]
    return size * (table > 0), size * np.isin(table, indices)


def sum_per_text(numbers: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The sum of the numbers of each text; the texts are concatenated."""
    return np.diff(np.cumsum(numbers, dtype=np.int64)[ends - 1], prepend=0)


def code_points(texts: Sequence[str]) -> npt.NDArray[np.uint32]:
    """The code points of all texts, concatenated."""
    return np.frombuffer("".join(texts).encode("utf-32-le"), "<u4")
