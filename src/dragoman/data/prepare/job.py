"""What the steps of a preparation share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.config import Recipe
from dragoman.data.corpora.cleaning import Cleaner, Hashes
from dragoman.data.prepare.workers import Workers
from dragoman.data.shards import Part
from dragoman.progress import Reporter

# side -> the name of its tokenizer on disk, the size of its vocabulary, and its fingerprint
Names = dict[str, tuple[str, int, str]]

CHUNK = 8192  # pairs: large enough that sending them to a process costs little, small enough for many processes


@dataclass(frozen=True)
class Cleaned:
    """A text that was written to the disk, cleaned: where each corpus lies in it, and a hash of each pair.

    With `trees`, the depths of its source's bytes lie beside it. `languages` are those of the targets, where there are
    several: for each pair its place in text.targets.
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
class Job:
    """What every step of one preparation needs."""

    staging: Path
    recipe: Recipe
    workers: Workers
    reporter: Reporter
