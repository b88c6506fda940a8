"""Prepared data: a directory with the ids of each split, the tokenizers, and a manifest of their origin.

prepared = Prepared.open(Path("prepared"))
for batch in prepared.loader(recipe.data): ...
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dragoman.config import DataRecipe
from dragoman.data.shards import Sentences, Split, SplitPart, TreeDepths, dtype_for, map_file
from dragoman.errors import DataError
from dragoman.files import MANIFEST, parse_json, sha256
from dragoman.values import plural, rename_keys, render_value

if TYPE_CHECKING:
    from dragoman.data.loader import Loader
    from dragoman.text import Tokenizer

DATA_FORMAT = 1
TOKENIZERS = "tokenizers"
OLD_NAMES = {"tokenisers": TOKENIZERS}  # written by earlier versions
PICTURE = "lengths.png"
SIDES = ("source", "target")
LINKS = "links"  # alignments of the training pairs, if they were given
DEPTHS = "depths"  # of the source's bytes in their trees, if there are any


@dataclass(frozen=True)
class Prepared:
    """A directory that `prepare` wrote, checked against its manifest."""

    directory: Path
    manifest: dict[str, Any]
    reused: bool = False  # it existed already, and `prepare` did nothing

    @classmethod
    def open(cls, directory: str | Path, verify: bool = False) -> Prepared:
        """Open the data and check the size of every file, or with `verify` every byte."""
        directory = Path(directory)
        manifest = read_manifest(directory)
        for name, expected in manifest["files"].items():
            path = directory / name
            size = path.stat().st_size if path.is_file() else None
            if size != expected["bytes"]:
                found = "is missing" if size is None else f"has {plural(size, 'byte')}"
                raise DataError(
                    f"{path} {found}, but the manifest lists {expected['bytes']:,} bytes; remove {directory} and run "
                    "the same command again",
                    code="file_damaged",
                )
        prepared = cls(directory, manifest)
        if verify:
            prepared.verify()
        return prepared

    def verify(self) -> None:
        """Raise DataError if a file has changed, by its SHA-256; several files are read at once.

        Files without a hash, written by early versions, must at least hold valid ids.
        """
        if fingerprint(self.manifest["inputs"], self.manifest["tokenizers"]) != self.fingerprint:
            raise self._damaged(MANIFEST, "has inputs and tokenizers that do not match its fingerprint")
        hashes = {name: entry["sha256"] for name, entry in self.manifest["files"].items() if "sha256" in entry}
        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
            found = dict(zip(hashes, pool.map(lambda name: sha256(self.directory / name), hashes), strict=True))
        for name, digest in found.items():
            if digest != hashes[name]:
                raise self._damaged(name, f"has SHA-256 {digest}, but {MANIFEST} says {hashes[name]}")
        sides = [(split, side) for split in self.manifest["splits"] for side in SIDES]
        for split, side in sides:
            name, size = f"{split}.{side}.ids", self.manifest["tokenizers"][side]["vocabulary_size"]
            if name not in hashes:
                ids = map_file(self.directory / name, dtype_for(size))
                if len(ids) and (largest := int(ids.max())) >= size:
                    raise self._damaged(name, f"holds the id {largest:,}, but the vocabulary has {size:,} tokens")

    def _damaged(self, name: str, problem: str) -> DataError:
        """The error for a file that has changed."""
        return DataError(
            f"{self.directory / name} was changed or damaged: it {problem}; remove {self.directory} and run the same "
            "command again",
            code="file_damaged",
        )

    @property
    def fingerprint(self) -> str:
        """SHA-256 of inputs, settings and tokenizers; equal if the prepared ids are equal."""
        return str(self.manifest["fingerprint"])

    @property
    def report(self) -> dict[str, Any]:
        """The report of `prepare`: pairs dropped by each rule, with examples, and counts."""
        return dict(self.manifest["report"])

    @property
    def summary(self) -> str:
        """The report in one line; rules that dropped nothing are left out."""
        report, splits = self.report, self.manifest["splits"]
        train, valid = (splits.get(name, {"pairs": 0})["pairs"] for name in ("train", "valid"))
        counts = [(rule, entry["dropped"]) for rule, entry in report["rules"].items()]
        counts += [(f"{rule} (validation)", entry["dropped"]) for rule, entry in report.get("valid_rules", {}).items()]
        dropped = ", ".join(f"{count:,} {rule}" for rule, count in counts if count)
        rest = f"dropped: {dropped}; examples are in {self.directory / MANIFEST}" if dropped else "none dropped"
        read = report["read"] + report.get("valid_read", 0)
        return f"{plural(read, 'pair')} read: {train:,} to train on, {valid:,} to validate with, {rest}"

    @property
    def tokenizers_directory(self) -> Path:
        """The directory of its tokenizers."""
        return self.directory / next((name for name in OLD_NAMES if (self.directory / name).is_dir()), TOKENIZERS)

    @cached_property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """The tokenizers of source and target; the same object if the vocabulary is shared."""
        from dragoman.text import load_tokenizer

        names = [self.manifest["tokenizers"][side]["name"] for side in SIDES]
        loaded = {name: load_tokenizer(self.tokenizers_directory, name) for name in set(names)}
        return loaded[names[0]], loaded[names[1]]

    def split(self, name: str = "train") -> Split:
        """The encoded pairs of "train" or "valid"."""
        known = self.manifest["splits"]
        if name not in known:
            held_out = "; there were too few pairs to hold some out: give validation files" if name == "valid" else ""
            raise DataError(
                f"{self.directory} has no split {name!r}; it has: {', '.join(known)}{held_out}",
                code="unknown_choice",
            )
        dtypes = [dtype_for(self.manifest["tokenizers"][side]["vocabulary_size"]) for side in SIDES]
        both = [Sentences.open(self.directory, f"{name}.{side}", dtypes[i]) for i, side in enumerate(SIDES)]
        return Split(both[0], both[1], tuple(SplitPart(**part) for part in known[name]["parts"]), self._depths(name))

    @property
    def has_trees(self) -> bool:
        """Whether the source sentences have dependency trees."""
        return f"train.{DEPTHS}.ids" in self.manifest["files"]

    @property
    def has_alignment(self) -> bool:
        """Whether the training pairs were prepared with word alignments."""
        return f"train.{LINKS}.ids" in self.manifest["files"]

    def _depths(self, name: str) -> TreeDepths | None:
        """The depths of the source's bytes in their trees, if there are any."""
        if not self.has_trees:
            return None
        widths = np.array(self.tokenizers[0].widths, np.int64)
        return TreeDepths(Sentences.open(self.directory, f"{name}.{DEPTHS}", "uint8"), widths)

    def loader(
        self,
        recipe: DataRecipe,
        split: str = "train",
        *,
        rank: int = 0,
        world: int = 1,
        state: int = 0,
        epochs: int | None = None,
        pin: bool | None = None,
        alignments: Path | None = None,
    ) -> Loader:
        """Batches of a split; subwords are sampled in training only. `alignments` is a directory of them, if any."""
        from dataclasses import replace

        from dragoman.data.alignment.store import with_alignments
        from dragoman.data.loader import Loader
        from dragoman.data.subword_sampling import SubwordSampler

        pairs, sampler = self.split(split), None
        if split != "train":
            recipe = replace(recipe, sampling=0.0, weights=())
        if alignments is not None:
            pairs = with_alignments(pairs, self, alignments)
        if recipe.sampling:
            names = tuple(self.manifest["tokenizers"][side]["name"] for side in SIDES)
            sampler = SubwordSampler(
                self.tokenizers_directory, names, pairs, recipe.sampling, recipe.seed, recipe.workers
            )
        return Loader(pairs, recipe, rank=rank, world=world, state=state, epochs=epochs, sampler=sampler, pin=pin)


def read_manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a directory of prepared data."""
    path = directory / MANIFEST
    try:
        manifest = rename_keys(parse_json(path.read_bytes()), OLD_NAMES)
    except FileNotFoundError:
        raise DataError(
            f"{directory} is not prepared data: it has no {MANIFEST}; run: dragoman prepare", code="not_prepared_data"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"cannot read {path}: {error}; remove {directory} and run the same command again", code="file_damaged"
        ) from None
    if not isinstance(manifest, dict) or manifest.get("format") != DATA_FORMAT:
        found = manifest.get("format") if isinstance(manifest, dict) else type(manifest).__name__
        raise DataError(
            f"{path} has format {render_value(found)}; this version reads format {DATA_FORMAT}; prepare the data again",
            code="unsupported_format",
        )
    if not {"inputs", "tokenizers", "splits", "files", "report"} <= manifest.keys():
        raise DataError(
            f"{directory} is not prepared data: its {MANIFEST} describes something else; run: dragoman prepare",
            code="not_prepared_data",
        )
    for problem in manifest_problems(manifest):
        raise DataError(
            f"{path} is damaged: {problem}; remove {directory} and run the same command again", code="file_damaged"
        )
    return manifest


def manifest_problems(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield the problems of a manifest."""
    for name in ("inputs", "tokenizers", "splits", "files", "report"):
        if not isinstance(manifest[name], dict):
            yield f"{name} is {render_value(manifest[name])}"
            return
    if not isinstance(manifest.get("fingerprint"), str):
        yield f"its fingerprint is {render_value(manifest.get('fingerprint'))}"
    for name, entry in manifest["files"].items():
        kept = isinstance(entry, dict) and is_count(entry.get("bytes")) and isinstance(entry.get("sha256", ""), str)
        if not kept or "\0" in name or Path(name).is_absolute() or ".." in Path(name).parts:
            yield f"its file {render_value(name)} is {render_value(entry)}"
    report = manifest["report"]
    if not is_count(report.get("read")) or not is_count(report.get("valid_read", 0)):
        yield f"its report is {render_value(report)}"
    for rules in (report.get("rules"), report.get("valid_rules", {})):
        entries = rules.values() if isinstance(rules, dict) else [None]
        if not all(isinstance(entry, dict) and is_count(entry.get("dropped")) for entry in entries):
            yield f"its rules are {render_value(rules)}"
    for side in SIDES:
        about = manifest["tokenizers"].get(side)
        if not (
            isinstance(about, dict) and isinstance(about.get("name"), str) and is_count(about.get("vocabulary_size"))
        ):
            yield f"its tokenizer of the {side} is {render_value(about)}"
    for name, split in manifest["splits"].items():
        parts = split.get("parts") if isinstance(split, dict) and is_count(split.get("pairs")) else None
        if not isinstance(parts, list) or not all(map(is_part, parts)):
            yield f"its split {render_value(name)} is {render_value(split)}"


def fingerprint(inputs: Mapping[str, Any], tokenizers: Mapping[str, Any]) -> str:
    """SHA-256 of everything that determines the prepared ids: inputs, settings and tokenizers."""
    return hashlib.sha256(json.dumps([inputs, tokenizers], sort_keys=True).encode()).hexdigest()


def is_count(value: object) -> bool:
    """Whether a value is an integer from 0 to 2**62."""
    return type(value) is int and 0 <= value < 1 << 62


def is_part(value: object) -> bool:
    """Whether a value describes a `SplitPart`."""
    if not isinstance(value, dict) or not {"name", "start", "stop"} <= value.keys() <= SplitPart.__annotations__.keys():
        return False
    weight = value.get("weight", 1.0)
    return (
        isinstance(value["name"], str)
        and is_count(value["start"])
        and is_count(value["stop"])
        and (type(weight) in (int, float) and weight > 0)
    )
