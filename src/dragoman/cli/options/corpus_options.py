"""The options that name files of sentence pairs, the same for every verb that reads them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from dragoman.data.corpora.corpus import Corpus
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
    click.option(
        "--to",
        "languages",
        multiple=True,
        metavar="CODE",
        help="For one model of several target languages: what each corpus is translated into, such as de.",
    ),
    click.option("--to-key", default="", help="Where each line of JSON lines or TSV says its own target language."),
    click.option(
        "--valid-source",
        "valid_sources",
        type=FILE,
        multiple=True,
        help="Validation sentences; without them, pairs are held out by hash.",
    ),
    click.option("--valid-target", "valid_targets", type=FILE, multiple=True, help="Their translations."),
    click.option("--valid-source-trees", "valid_trees", type=FILE, help="The trees of the validation sources."),
    click.option(
        "--valid-tsv", "valid_tsvs", type=FILE, multiple=True, help="Validation pairs as --tsv, with the same keys."
    ),
    click.option(
        "--valid-jsonl",
        "valid_jsonls",
        type=FILE,
        multiple=True,
        help="Validation pairs as --jsonl, with the same keys.",
    ),
    click.option(
        "--valid-to",
        "valid_languages",
        multiple=True,
        metavar="CODE",
        help="The target language of each validation set, where there are several.",
    ),
]


@dataclass(frozen=True)
class Given:
    """The corpora that a person named, in order, and the validation set, if there is one, or several by language."""

    corpora: list[Corpus]
    valid: list[Corpus]


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
    *("weights", "languages", "to_key", "valid_sources", "valid_targets", "valid_trees", "valid_tsvs", "valid_jsonls"),
    "valid_languages",
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
    languages: tuple[str, ...],
    to_key: str,
    valid_sources: tuple[Path, ...],
    valid_targets: tuple[Path, ...],
    valid_trees: Path | None,
    valid_tsvs: tuple[Path, ...],
    valid_jsonls: tuple[Path, ...],
    valid_languages: tuple[str, ...],
) -> Given:
    """The corpora in order, with their weights, trees and languages."""
    if len(sources) != len(targets):
        raise DataError(
            f"--source names {len(sources)} and --target {len(targets)} of the files; plain files come in twos"
        )

    def both_sides(path: Path, form: Literal["tsv", "jsonl"]) -> Corpus:
        return Corpus(path, form=form, source_key=source_key, target_key=target_key, to_key=to_key)

    corpora = [Corpus(s, t) for s, t in zip(sources, targets, strict=True)]
    corpora += [both_sides(path, "tsv") for path in tsvs]
    corpora += [both_sides(path, "jsonl") for path in jsonls]
    if not corpora:
        raise DataError("there are no sentence pairs; give --source and --target, --tsv or --jsonl")
    corpora = in_languages(corpora, languages, "--to")
    if weights and len(weights) != len(corpora):
        raise DataError(f"{len(weights)} weights came for {len(corpora)} corpora; give one for each, or none")
    if trees and len(trees) != len(corpora):
        raise DataError(f"{len(trees)} files of trees came for {len(corpora)} corpora; give one for each, or none")
    weighted = zip(corpora, weights or [1.0] * len(corpora), trees or [None] * len(corpora), strict=True)
    if len(valid_sources) != len(valid_targets):
        raise DataError("a validation set needs both sides: give --valid-source and --valid-target")
    valid = [Corpus(s, t) for s, t in zip(valid_sources, valid_targets, strict=True)]
    valid += [both_sides(path, "tsv") for path in valid_tsvs]
    valid += [both_sides(path, "jsonl") for path in valid_jsonls]
    valid = in_languages(valid, valid_languages, "--valid-to")
    if len(valid) > 1 and not all(corpus.names_target for corpus in valid):
        raise DataError(
            f"there is one validation set, but {' and '.join(v.name for v in valid)} came; put them together, or give "
            "--valid-to for each, where one model learns several target languages"
        )
    if valid_trees is not None and len(valid) != 1:
        given = f"{len(valid)} are" if valid else "none is"
        raise DataError(f"--valid-source-trees {valid_trees} belongs to a validation set, and {given} given")
    if to_key and all(corpus.target is not None for corpus in (*corpora, *valid)):
        raise DataError("--to-key is for TSV and JSON lines, but only plain files came; give --to for each")
    if (source_key or target_key) and all(corpus.target is not None for corpus in (*corpora, *valid)):
        raise DataError("--source-key and --target-key are for TSV and JSON lines, but only plain files came")
    return Given(
        [replace(corpus, weight=weight, source_trees=tree) for corpus, weight, tree in weighted],
        [replace(corpus, source_trees=valid_trees) for corpus in valid],
    )


def in_languages(corpora: list[Corpus], languages: tuple[str, ...], option: str) -> list[Corpus]:
    """The corpora with a language for each of those whose lines do not say their own."""
    silent = [corpus for corpus in corpora if not corpus.to_key]
    if not languages:
        return corpora
    if len(languages) != len(silent):
        kind = " whose lines do not say their own" if len(silent) < len(corpora) else ""
        raise DataError(
            f"{len(languages)} languages came with {option} for {len(silent)} corpora{kind}; give one for each, in the "
            "order plain, TSV, JSON lines, or none where one model learns one target language"
        )
    named = iter(languages)
    return [corpus if corpus.to_key else replace(corpus, to=next(named)) for corpus in corpora]
