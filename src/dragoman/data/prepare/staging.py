"""The staging directory of `prepare`: data shared by its steps, and the manifest that completes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dragoman import __version__
from dragoman.config import Recipe
from dragoman.data.corpora.cleaning import RULES, Cleaner, Hashes
from dragoman.data.prepare.workers import Workers
from dragoman.data.prepared import DATA_FORMAT, SIDES, Prepared, fingerprint
from dragoman.data.shards import SplitPart
from dragoman.errors import DataError, DragomanError
from dragoman.files import MANIFEST, sha256, staged, write_atomically
from dragoman.progress import Reporter

PAIRS_PER_CHUNK = 8192  # large enough to make sending them to a process cheap, small enough for many processes


class TokenizerEntry(NamedTuple):
    """A tokenizer's entry in the manifest."""

    name: str
    vocabulary_size: int
    fingerprint: str


SideTokenizers = dict[str, TokenizerEntry]  # by side


@dataclass(frozen=True)
class CleanText:
    """Cleaned text on disk: the range of each corpus, and a hash of each pair.

    With `trees`, the depths of the source's bytes are stored next to it. `languages` has the index of each pair's
    target language in text.targets, if there are several. If it is `aligned`, links between words are stored, too.
    """

    name: str
    parts: tuple[SplitPart, ...]
    hashes: Hashes
    cleaner: Cleaner
    trees: bool = False
    languages: npt.NDArray[np.uint16] | None = None
    aligned: bool = False

    def __len__(self) -> int:
        return len(self.hashes)


@dataclass(frozen=True)
class PrepareContext:
    """Context shared by all steps of one preparation."""

    staging: Path
    recipe: Recipe
    workers: Workers
    reporter: Reporter


@contextmanager
def staging_directory(out: Path) -> Iterator[Path]:
    """An empty directory that becomes `out` when the block succeeds; write errors are DataErrors."""
    try:
        with staged(out) as staging:
            yield staging
    except OSError as error:  # usually a full disk; reading raises other errors
        if isinstance(error, DragomanError):
            raise
        raise DataError(
            f"cannot write {out}: {error.strerror or error}; nothing was kept", code="cannot_write"
        ) from error


def make_report(train: CleanText, valid: CleanText | None, splits: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The pairs read and dropped by each rule, with examples; every pair read is kept or counted here."""
    report: dict[str, Any] = {"read": train.cleaner.n_read, "rules": rule_report(train.cleaner)}
    if valid is not None:
        report |= {"valid_read": valid.cleaner.n_read, "valid_rules": rule_report(valid.cleaner)}
    kept = sum(split["pairs"] for split in splits.values())
    n_read = train.cleaner.n_read + (valid.cleaner.n_read if valid else 0)
    dropped = train.cleaner.n_dropped + (valid.cleaner.n_dropped if valid else 0)
    assert kept + dropped == n_read, (kept, dropped, n_read)  # nothing is dropped silently
    return report


def rule_report(cleaner: Cleaner) -> dict[str, Any]:
    """The pairs dropped by each rule, for JSON."""
    return {
        rule: {"why": RULES[rule], "dropped": d.count, "examples": d.examples} for rule, d in cleaner.dropped_by.items()
    }


def write_data_manifest(
    context: PrepareContext,
    inputs: dict[str, Any],
    entries: SideTokenizers,
    splits: dict[str, dict[str, Any]],
    report: dict[str, Any],
) -> None:
    """Write the manifest, the last file, which lists the content and its origin; remove intermediate text."""
    for path in context.staging.glob("*-text.*"):
        path.unlink()
    tokenizers = {side: entries[side]._asdict() for side in SIDES}
    files = sorted(path for path in context.staging.rglob("*") if path.is_file())
    manifest = {
        "format": DATA_FORMAT,
        "dragoman": __version__,
        "fingerprint": fingerprint(inputs, tokenizers),
        "inputs": inputs,
        "tokenizers": tokenizers,
        "splits": splits,
        "files": {
            path.relative_to(context.staging).as_posix(): {"bytes": path.stat().st_size, "sha256": sha256(path)}
            for path in files
        },
        "report": report,
    }
    save_manifest(context.staging, manifest)


def save_manifest(directory: Path, manifest: dict[str, Any]) -> None:
    """Write the manifest atomically."""
    write_atomically(directory / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))


def set_weights(prepared: Prepared, weights: Sequence[float]) -> Prepared:
    """The same data with these weights, the only input that can change without preparing again."""
    parts = prepared.manifest["splits"]["train"]["parts"]
    if [part["weight"] for part in parts] != list(weights):
        for part, weight in zip(parts, weights, strict=True):
            part["weight"] = weight
        save_manifest(prepared.directory, prepared.manifest)
    return prepared
