"""The options that name files of sentence pairs, the same for every verb that reads them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from dragoman.data.reading import Corpus
from dragoman.errors import DataError

FILE = click.Path(path_type=Path)
OPTIONS = [
    click.option("--source", "sources", type=FILE, multiple=True, help="Plain text, a source sentence per line."),
    click.option("--target", "targets", type=FILE, multiple=True, help="Its translation, line by line."),
    click.option("--tsv", "tsvs", type=FILE, multiple=True, help="Source, tab, target on each line."),
    click.option("--jsonl", "jsonls", type=FILE, multiple=True, help='An object per line: {"en": ..., "de": ...}.'),
    click.option("--source-key", default="", help="The source in JSON lines (such as en), or its column in TSV."),
    click.option("--target-key", default="", help="The target in JSON lines (such as de), or its column in TSV."),
    click.option(
        "--source-trees", "trees", type=FILE, multiple=True, help="The sources' dependency trees, in CoNLL-U."
    ),
    click.option("--weight", "weights", type=float, multiple=True, help="How often an epoch goes through each corpus."),
    click.option("--valid-source", type=FILE, help="Validation sentences; without them, pairs are held out by hash."),
    click.option("--valid-target", type=FILE, help="Their translations."),
    click.option("--valid-source-trees", "valid_trees", type=FILE, help="The trees of the validation sources."),
    click.option("--valid-tsv", type=FILE, help="Validation pairs as --tsv, with the same keys."),
    click.option("--valid-jsonl", type=FILE, help="Validation pairs as --jsonl, with the same keys."),
]


@dataclass(frozen=True)
class Given:
    """The corpora that a person named, in order, and the validation set, if there is one."""

    corpora: list[Corpus]
    valid: Corpus | None
    names: tuple[str, str]


def corpus_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above, and hand it what they name as `given`."""

    @functools.wraps(function)
    def wrapped(*args: Any, **values: Any) -> None:
        own = {name: values.pop(name) for name in PARAMETERS}
        function(*args, given=gather(**own), **values)

    for option in reversed(OPTIONS):
        wrapped = option(wrapped)
    return wrapped


PARAMETERS = (
    *("sources", "targets", "tsvs", "jsonls", "source_key", "target_key", "trees"),
    *("weights", "valid_source", "valid_target", "valid_trees", "valid_tsv", "valid_jsonl"),
)


def gather(
    sources: tuple[Path, ...],
    targets: tuple[Path, ...],
    tsvs: tuple[Path, ...],
    jsonls: tuple[Path, ...],
    source_key: str,
    target_key: str,
    trees: tuple[Path, ...],
    weights: tuple[float, ...],
    valid_source: Path | None,
    valid_target: Path | None,
    valid_trees: Path | None,
    valid_tsv: Path | None,
    valid_jsonl: Path | None,
) -> Given:
    """The corpora in order, with their weights and trees."""
    if len(sources) != len(targets):
        raise DataError(
            f"--source names {len(sources)} and --target {len(targets)} of the files; plain files come in twos"
        )

    def both_sides(path: Path, form: Literal["tsv", "jsonl"]) -> Corpus:
        return Corpus(path, form=form, source_key=source_key, target_key=target_key)

    corpora = [Corpus(s, t) for s, t in zip(sources, targets, strict=True)]
    corpora += [both_sides(path, "tsv") for path in tsvs]
    corpora += [both_sides(path, "jsonl") for path in jsonls]
    if not corpora:
        raise DataError("there are no sentence pairs; give --source and --target, --tsv or --jsonl")
    if weights and len(weights) != len(corpora):
        raise DataError(f"{len(weights)} weights came for {len(corpora)} corpora; give one for each, or none")
    if trees and len(trees) != len(corpora):
        raise DataError(f"{len(trees)} files of trees came for {len(corpora)} corpora; give one for each, or none")
    weighted = zip(corpora, weights or [1.0] * len(corpora), trees or [None] * len(corpora), strict=True)
    if (valid_source is None) != (valid_target is None):
        raise DataError("a validation set needs both sides: give --valid-source and --valid-target")
    valid = [] if valid_source is None else [Corpus(valid_source, valid_target)]
    valid += [] if valid_tsv is None else [both_sides(valid_tsv, "tsv")]
    valid += [] if valid_jsonl is None else [both_sides(valid_jsonl, "jsonl")]
    if len(valid) > 1:
        raise DataError(
            f"there is one validation set, but {' and '.join(v.name for v in valid)} came; put them together"
        )
    if valid_trees is not None and not valid:
        raise DataError(f"--valid-source-trees {valid_trees} belongs to a validation set, and none is given")
    if (source_key or target_key) and all(corpus.target is not None for corpus in (*corpora, *valid)):
        raise DataError("--source-key and --target-key are for TSV and JSON lines, but only plain files came")
    return Given(
        [replace(corpus, weight=weight, source_trees=tree) for corpus, weight, tree in weighted],
        replace(valid[0], source_trees=valid_trees) if valid else None,
        (sources[0].name, targets[0].name) if sources else (source_key or "source", target_key or "target"),
    )
