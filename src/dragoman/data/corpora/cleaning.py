"""Rules that drop sentence pairs; each counts what it drops and keeps examples, so nothing is dropped silently.

`check_chunk` needs only the chunk and can run in any process; `Cleaner` keeps the state between chunks: the pairs seen
so far, the counts and the examples.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from dragoman.config import DataRecipe
from dragoman.errors import DataError
from dragoman.text.normalization import normalize
from dragoman.values import suggest

# In order of precedence: each dropped pair is counted once, under the first rule that it breaks.
RULES = {
    "empty": "one or both sides have no text",
    "length": "a side has more than data.max_characters characters",
    "ratio": "one side is more than data.max_ratio times as long as the other, in UTF-8 bytes",
    "copy": "both sides have the same text",
    "script": "too few letters of a side belong to its script",
    "held out": "the pair is in the validation set",
    "duplicate": "the same pair occurred earlier",
    "tokens": "a side has more than data.max_tokens tokens",
}
STATELESS = ("empty", "length", "ratio", "copy", "script")
CODES = {rule: code for code, rule in enumerate(RULES, 1)}
RATIO_SLACK = 16  # bytes of difference that are always allowed: "Yes." and "Jawohl, gewiss." are a valid pair
EXAMPLES = 3

Verdicts = npt.NDArray[np.uint8]  # per pair: 0 (kept) or the code of the rule that drops it
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class CheckedChunk:
    """A chunk of pairs, normalized, with a verdict and a hash of each."""

    sources: list[str]
    targets: list[str]
    verdicts: Verdicts
    hashes: Hashes
    languages: Sequence[str] = ()


@dataclass
class DroppedPairs:
    """The number of pairs dropped by one rule, and examples."""

    count: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)


def check_chunk(
    sources: Sequence[str],
    targets: Sequence[str],
    recipe: DataRecipe,
    scripts: tuple[frozenset[str], frozenset[str]],
    languages: Sequence[str] = (),
) -> CheckedChunk:
    """Normalize a chunk and apply the rules for single pairs; without scripts, all scripts are allowed.

    With `languages` (of each pair's target), equal pairs in different languages are different pairs.
    """
    sources, targets = [normalize(s) for s in sources], [normalize(t) for t in targets]
    packed = [s.encode() + b"\0" + t.encode() for s, t in zip(sources, targets, strict=True)]
    keys = [code.encode() for code in languages] or [b""] * len(packed)
    digests = (blake2b(p, digest_size=8, key=key).digest() for p, key in zip(packed, keys, strict=True))
    hashes = np.frombuffer(b"".join(digests), dtype="<u8")
    n = len(sources)
    characters = np.array([[len(s) for s in sources], [len(t) for t in targets]]).reshape(2, n)
    source_bytes = np.fromiter((p.index(b"\0") for p in packed), np.int64, n)
    target_bytes = np.fromiter(map(len, packed), np.int64, n) - source_bytes - 1
    longer, shorter = np.maximum(source_bytes, target_bytes), np.minimum(source_bytes, target_bytes)
    broken = {
        "empty": shorter == 0,
        "length": characters.max(0, initial=0) > recipe.max_characters,
        "ratio": longer > recipe.max_ratio * shorter + RATIO_SLACK,
    }
    if recipe.drop_copies:
        broken["copy"] = np.fromiter((s == t for s, t in zip(sources, targets, strict=True)), bool, n)
    if recipe.min_script > 0:
        shares = np.minimum(expected_share(sources, scripts[0]), expected_share(targets, scripts[1]))
        broken["script"] = shares < recipe.min_script
    verdicts = np.zeros(n, np.uint8)
    for rule in STATELESS:
        if rule in broken:
            verdicts[(verdicts == 0) & broken[rule]] = CODES[rule]
    return CheckedChunk(sources, targets, verdicts, hashes, languages)


class HashSet:
    """A set of 64-bit hashes in eight bytes each: sorted runs, each at least twice as long as the next.

    Two different pairs share a hash once in about 10^7 corpora of a million pairs.
    """

    def __init__(self) -> None:
        self.runs: list[Hashes] = []

    def __contains__(self, hashed: int) -> bool:
        return bool(self.contains(np.array([hashed], np.uint64))[0])

    def contains(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """For each hash, whether it was added before."""
        found = np.zeros(len(hashes), bool)
        for run in self.runs:
            nearest = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            found |= run[nearest] == hashes
        return found

    def add(self, hashes: Hashes) -> None:
        """Add hashes, which may repeat."""
        if not len(hashes):
            return
        self.runs.append(np.unique(hashes))
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            last = self.runs.pop()
            self.runs[-1] = np.union1d(self.runs[-1], last)


class Cleaner:
    """Apply the rules to all corpora, chunk by chunk and in order."""

    def __init__(self, recipe: DataRecipe, held_out: HashSet | None = None) -> None:
        self.recipe = recipe
        self.held_out = held_out or HashSet()
        self.seen = HashSet()
        self.dropped_by = {rule: DroppedPairs() for rule in RULES}
        self.n_read = 0

    def filter(self, chunk: CheckedChunk) -> npt.NDArray[np.bool_]:
        """A mask of the pairs to keep of the next chunk."""
        self.n_read += len(chunk.verdicts)
        verdicts = chunk.verdicts.copy()
        verdicts[(verdicts == 0) & self.held_out.contains(chunk.hashes)] = CODES["held out"]
        if self.recipe.drop_duplicates:
            fresh = np.flatnonzero(verdicts == 0)
            hashes = chunk.hashes[fresh]
            first = np.zeros(len(hashes), bool)
            first[np.unique(hashes, return_index=True)[1]] = True  # index of the first occurrence
            first &= ~self.seen.contains(hashes)
            verdicts[fresh[~first]] = CODES["duplicate"]
            self.seen.add(hashes[first])
        for code in np.unique(verdicts[verdicts != 0]):
            dropped = np.flatnonzero(verdicts == code)
            rule = list(RULES)[code - 1]
            self.count_dropped(rule, len(dropped), [(chunk.sources[i], chunk.targets[i]) for i in dropped[:EXAMPLES]])
        kept: npt.NDArray[np.bool_] = verdicts == 0
        return kept

    def count_dropped(self, rule: str, count: int, examples: list[tuple[str, str]]) -> None:
        """Count the pairs dropped by a rule."""
        dropped = self.dropped_by[rule]
        dropped.count += count
        dropped.examples += examples[: EXAMPLES - len(dropped.examples)]

    @property
    def n_dropped(self) -> int:
        """The number of pairs dropped by all rules together."""
        return sum(dropped.count for dropped in self.dropped_by.values())


# Languages written in several scripts, and other common names; all other names are Unicode's.
ALIASES = {
    "HAN": frozenset({"CJK"}),
    "CHINESE": frozenset({"CJK"}),
    "JAPANESE": frozenset({"CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"}),
    "KOREAN": frozenset({"HANGUL", "CJK"}),
}


@cache
def letters() -> tuple[tuple[str, ...], npt.NDArray[np.uint16]]:
    """The names of all scripts, and the index of the script of each code point; 0 if it is not a letter."""
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
    """The names of scripts with several letters; a sign such as the Kelvin sign would be a script of one letter."""
    names, table = letters()
    sizes = np.bincount(table, minlength=len(names))
    return [name for name, size in zip(names[1:], sizes[1:], strict=True) if size > 4]


def count_letters(texts: Sequence[str]) -> dict[str, int]:
    """The number of letters of each script in the texts."""
    names, table = letters()
    found = np.bincount(table[code_points(texts)], minlength=len(names))
    return {names[i]: int(found[i]) for i in np.flatnonzero(found) if i}


def detect_scripts(texts: Sequence[str]) -> frozenset[str]:
    """The script of most letters, with the scripts mixed with it; empty if there are no letters."""
    found = count_letters(texts)
    if not found:
        return frozenset()
    kana = found.get("HIRAGANA", 0) + found.get("KATAKANA", 0)
    if kana > 0.1 * sum(found.values()):
        return ALIASES["JAPANESE"]
    script = max(found, key=lambda name: found[name])
    return ALIASES["KOREAN"] if script == "HANGUL" else frozenset({script})


def parse_script(script: str) -> frozenset[str]:
    """The scripts for a name such as "latin" or "japanese"."""
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

    Letters are weighted by their UTF-8 bytes: one Chinese character carries about as much as three Latin letters.
    """
    shares = np.ones(len(texts))
    if not scripts:
        return shares
    # Pure ASCII text, the most common case, has only Latin letters.
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
