"""Rules that drop sentence pairs; each counts what it drops and keeps examples, so nothing is dropped silently.

`check_chunk` looks at a chunk of pairs alone and can run in any process; `Cleaner` holds what is remembered from chunk
to chunk: the pairs seen so far, the counts and the examples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from dragoman.config import DataRecipe
from dragoman.data.corpora.scripts import expected_share
from dragoman.text.normalization import normalize

# The order in which rules claim a pair: each dropped pair is counted once, under the first rule that it breaks.
RULES = {
    "empty": "one side or both hold no text",
    "length": "a side has more than data.max_characters characters",
    "ratio": "one side is more than data.max_ratio times as long as the other, in UTF-8 bytes",
    "copy": "both sides are the same text",
    "script": "too few of the letters are of the script that the side is written in",
    "held out": "the pair is in the validation set",
    "duplicate": "the same pair came before",
    "tokens": "a side has more than data.max_tokens tokens",
}
STATELESS = ("empty", "length", "ratio", "copy", "script")
CODES = {rule: code for code, rule in enumerate(RULES, 1)}
RATIO_SLACK = 16  # bytes that may always differ: "Yes." and "Jawohl, gewiss." are no accident
EXAMPLES = 3

Verdicts = npt.NDArray[np.uint8]  # for each pair 0 (kept) or the code of the rule that drops it
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
    """The pairs that one rule has dropped: how many, and examples."""

    count: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)


def check_chunk(
    sources: Sequence[str],
    targets: Sequence[str],
    recipe: DataRecipe,
    scripts: tuple[frozenset[str], frozenset[str]],
    languages: Sequence[str] = (),
) -> CheckedChunk:
    """Normalize a chunk and apply the rules that look at one pair alone; without scripts, all are expected.

    With `languages`, of each pair's target, the same pair in another language is another pair.
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
    """A set of 64-bit hashes at eight bytes each: sorted runs, each at least twice as long as the next.

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
    """Applies the rules to all corpora, chunk by chunk and in order."""

    def __init__(self, recipe: DataRecipe, held_out: HashSet | None = None) -> None:
        self.recipe = recipe
        self.held_out = held_out or HashSet()
        self.seen = HashSet()
        self.dropped_by = {rule: DroppedPairs() for rule in RULES}
        self.n_read = 0

    def filter(self, chunk: CheckedChunk) -> npt.NDArray[np.bool_]:
        """A mask of the pairs of the next chunk that stay."""
        self.n_read += len(chunk.verdicts)
        verdicts = chunk.verdicts.copy()
        verdicts[(verdicts == 0) & self.held_out.contains(chunk.hashes)] = CODES["held out"]
        if self.recipe.drop_duplicates:
            fresh = np.flatnonzero(verdicts == 0)
            hashes = chunk.hashes[fresh]
            first = np.zeros(len(hashes), bool)
            first[np.unique(hashes, return_index=True)[1]] = True  # the index of the first of equals
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
        """Add to what a rule has dropped."""
        dropped = self.dropped_by[rule]
        dropped.count += count
        dropped.examples += examples[: EXAMPLES - len(dropped.examples)]

    @property
    def n_dropped(self) -> int:
        """How many pairs all rules together have dropped."""
        return sum(dropped.count for dropped in self.dropped_by.values())
