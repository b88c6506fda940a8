"""The manifest of prepared data: what the directory holds, where it came from, and what cleaning dropped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman import __version__
from dragoman.data.corpora.cleaning import RULES, Cleaner
from dragoman.data.prepare.context import CleanText, PrepareContext, SideTokenizers
from dragoman.data.prepared import FORMAT, MANIFEST, SIDES, Prepared
from dragoman.files import sha256, write_atomically


def make_report(train: CleanText, valid: CleanText | None, splits: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What was read and what each rule dropped, with examples: every pair read is kept or counted here."""
    report: dict[str, Any] = {"read": train.cleaner.n_read, "rules": rule_report(train.cleaner)}
    if valid is not None:
        report |= {"valid_read": valid.cleaner.n_read, "valid_rules": rule_report(valid.cleaner)}
    kept = sum(split["pairs"] for split in splits.values())
    n_read = train.cleaner.n_read + (valid.cleaner.n_read if valid else 0)
    dropped = train.cleaner.n_dropped + (valid.cleaner.n_dropped if valid else 0)
    assert kept + dropped == n_read, (kept, dropped, n_read)  # nothing is dropped silently
    return report


def rule_report(cleaner: Cleaner) -> dict[str, Any]:
    """What each rule dropped, for JSON."""
    return {
        rule: {"why": RULES[rule], "dropped": d.count, "examples": d.examples} for rule, d in cleaner.dropped_by.items()
    }


def write_manifest(
    context: PrepareContext,
    inputs: dict[str, Any],
    entries: SideTokenizers,
    splits: dict[str, dict[str, Any]],
    report: dict[str, Any],
) -> None:
    """Write the last file, which says what the directory holds and where it came from; remove intermediate text."""
    for path in context.staging.glob("*-text.*"):
        path.unlink()
    tokenizers = {side: entries[side]._asdict() for side in SIDES}
    files = sorted(path for path in context.staging.rglob("*") if path.is_file())
    identity = json.dumps([inputs, tokenizers], sort_keys=True).encode()
    manifest = {
        "format": FORMAT,
        "dragoman": __version__,
        "fingerprint": hashlib.sha256(identity).hexdigest(),
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
    """Write the manifest whole or not at all."""
    write_atomically(directory / MANIFEST, json.dumps(manifest, ensure_ascii=False, indent=1))


def set_weights(prepared: Prepared, weights: Sequence[float]) -> Prepared:
    """The same data with these weights, which are all that may change without preparing again."""
    parts = prepared.manifest["splits"]["train"]["parts"]
    if [part["weight"] for part in parts] != list(weights):
        for part, weight in zip(parts, weights, strict=True):
            part["weight"] = weight
        save_manifest(prepared.directory, prepared.manifest)
    return prepared
