"""What the steps of `prepare` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman.config import Recipe
from dragoman.data.corpora.cleaning import Cleaner, Hashes
from dragoman.data.prepare.workers import Workers
from dragoman.data.shards import Part
from dragoman.progress import Reporter

CHUNK = 8192  # pairs: large enough that sending them to a process costs little, small enough for many processes


class TokenizerEntry(NamedTuple):
    """A tokenizer as the manifest names it."""

    name: str
    vocabulary_size: int
    fingerprint: str


SideTokenizers = dict[str, TokenizerEntry]  # by side


@dataclass(frozen=True)
class CleanText:
    """Cleaned text on disk: where each corpus lies in it, and a hash of each pair.

    With `trees`, the depths of the source's bytes lie next to it. `languages` has the index of each pair's target
    language in text.targets, if there are several.
    """

    name: str
    parts: tuple[Part, ...]
    hashes: Hashes
    cleaner: Cleaner
    trees: bool = False
    languages: npt.NDArray[np.uint16] | None = None

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True)
class PrepareContext:
    """What every step of one preparation needs."""

    staging: Path
    recipe: Recipe
    workers: Workers
    reporter: Reporter
