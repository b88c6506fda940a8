"""Options for files of sentence pairs, shared by all commands that read them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from dragoman.cli.options import FILE
from dragoman.data.corpora.corpus import Corpus, all_corpora, plain_corpora
from dragoman.errors import DataError
from dragoman.values import plural

CORPUS_OPTIONS = [
    click.option("--source", "sources", type=FILE, multiple=True, help="Plain text, one source sentence per line."),
    click.option("--target", "targets", type=FILE, multiple=True, help="The translations, one per line."),
    click.option("--tsv", "tsvs", type=FILE, multiple=True, help="TSV file: source, tab, target on each line."),
    click.option(
        "--jsonl", "jsonls", type=FILE, multiple=True, help='JSON lines: one object per line, {"en": ..., "de": ...}.'
    ),
    click.option(
        "--tmx", "tmxs", type=FILE, multiple=True, help="Translation memory in TMX, with the languages as keys."
    ),
    click.option(
        "--source-key", default="", help="Key of the source in JSON lines or TMX (such as en), or its column in TSV."
    ),
    click.option(
        "--target-key", default="", help="Key of the target in JSON lines or TMX (such as de), or its column in TSV."
    ),
    click.option(
        "--source-trees", "trees", type=FILE, multiple=True, help="Dependency trees of the sources, in CoNLL-U."
    ),
    click.option(
        "--alignment",
        "alignments",
        type=FILE,
        multiple=True,
        help="Word alignment of each pair, such as 0-0 1-2, for train.alignment_weight.",
    ),
    click.option("--weight", "weights", type=float, multiple=True, help="Number of passes over a corpus per epoch."),
    click.option(
        "--to",
        "languages",
        multiple=True,
        metavar="CODE",
        help="Target language of each corpus, such as de, for a multilingual model.",
    ),
    click.option("--to-key", default="", help="Key or TSV column with the target language of each line."),
    click.option(
        "--valid-source",
        "valid_sources",
        type=FILE,
        multiple=True,
        help="Validation sentences, one set per target language; without them, some pairs are held out.",
    ),
    click.option("--valid-target", "valid_targets", type=FILE, multiple=True, help="Their translations."),
    click.option("--valid-source-trees", "valid_trees", type=FILE, help="Trees of the validation sources."),
    click.option(
        "--valid-tsv", "valid_tsvs", type=FILE, multiple=True, help="Validation pairs, like --tsv, with the same keys."
    ),
    click.option(
        "--valid-jsonl",
        "valid_jsonls",
        type=FILE,
        multiple=True,
        help="Validation pairs, like --jsonl, with the same keys.",
    ),
    click.option(
        "--valid-tmx", "valid_tmxs", type=FILE, multiple=True, help="Validation pairs, like --tmx, with the same keys."
    ),
    click.option(
        "--valid-to",
        "valid_languages",
        multiple=True,
        metavar="CODE",
        help="Target language of each validation set, for a multilingual model.",
    ),
]


@dataclass(frozen=True)
class CorpusArguments:
    """The corpora of a command line, in order, and the validation sets: one, or one for each target language."""

    corpora: list[Corpus]
    valid: list[Corpus]


def corpus_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options above to a command, and pass the corpora as `data`."""

    @functools.wraps(function)
    def wrapped(*args: Any, **values: Any) -> None:
        own = {name: values.pop(name) for name in PARAMETERS}
        function(*args, data=parse_corpora(**own), **values)

    for option in reversed(CORPUS_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


PARAMETERS = (
    *("sources", "targets", "tsvs", "jsonls", "tmxs", "source_key", "target_key", "trees", "alignments"),
    *("weights", "languages", "to_key", "valid_sources", "valid_targets", "valid_trees", "valid_tsvs", "valid_jsonls"),
    *("valid_tmxs", "valid_languages"),
)


def parse_corpora(
    sources: tuple[Path, ...],
    targets: tuple[Path, ...],
    tsvs: tuple[Path, ...],
    jsonls: tuple[Path, ...],
    tmxs: tuple[Path, ...],
    source_key: str,
    target_key: str,
    trees: tuple[Path, ...],
    alignments: tuple[Path, ...],
    weights: tuple[float, ...],
    languages: tuple[str, ...],
    to_key: str,
    valid_sources: tuple[Path, ...],
    valid_targets: tuple[Path, ...],
    valid_trees: Path | None,
    valid_tsvs: tuple[Path, ...],
    valid_jsonls: tuple[Path, ...],
    valid_tmxs: tuple[Path, ...],
    valid_languages: tuple[str, ...],
) -> CorpusArguments:
    """The corpora in order, with their weights, trees and languages."""

    def single_files(tsvs: Sequence[Path], jsonls: Sequence[Path], tmxs: Sequence[Path]) -> list[Corpus]:
        """The corpora that have both sides in one file."""
        forms: dict[Literal["tsv", "jsonl", "tmx"], Sequence[Path]] = {"tsv": tsvs, "jsonl": jsonls, "tmx": tmxs}
        found = []
        for form, paths in forms.items():
            keys = source_key, target_key
            if form == "tsv" and (jsonls or tmxs) and not any(key.isdecimal() for key in keys):
                keys = "", ""  # names are for the other forms
            found += [Corpus(path, form=form, source_key=keys[0], target_key=keys[1], to_key=to_key) for path in paths]
        return found

    corpora = all_corpora(sources, targets, single_files(tsvs, jsonls, tmxs))
    corpora = assign_languages(corpora, languages, "--to")
    check_count(corpora, plural(len(weights), "weight"), weights, "--weight")
    check_count(corpora, f"{plural(len(trees), 'file')} of trees", trees, "--source-trees")
    check_count(corpora, f"{plural(len(alignments), 'file')} of alignments", alignments, "--alignment")
    n = len(corpora)
    extras = zip(corpora, weights or [1.0] * n, trees or [None] * n, alignments or [None] * n, strict=True)
    corpora = [replace(one, weight=weight, source_trees=tree, alignment=links) for one, weight, tree, links in extras]
    valid = plain_corpora(valid_sources, valid_targets, "validation ")
    valid += single_files(valid_tsvs, valid_jsonls, valid_tmxs)
    valid = assign_languages(valid, valid_languages, "--valid-to")
    check_valid(valid, valid_trees)
    if all(corpus.target is not None for corpus in (*corpora, *valid)):
        check_keys(source_key, target_key, to_key)
    return CorpusArguments(corpora, [replace(corpus, source_trees=valid_trees) for corpus in valid])


def check_count(corpora: Sequence[Corpus], counted: str, values: Sequence[object], option: str) -> None:
    """Reject an option that is given, but not once for each corpus."""
    if values and len(values) != len(corpora):
        raise DataError(
            f"got {counted} for {plural(len(corpora), 'corpus', 'corpora')}; give one {option} for each corpus, or "
            "none",
            code="count_mismatch",
        )


def check_valid(valid: Sequence[Corpus], trees: Path | None) -> None:
    """Reject several validation sets without languages, and trees for any number of sets but one."""
    if len(valid) > 1 and not all(corpus.names_target for corpus in valid):
        raise DataError(
            f"got several validation sets, {' and '.join(v.name for v in valid)}; join them, or give --valid-to "
            "for each if the model has several target languages",
            code="several_validation_sets",
        )
    if trees is not None and len(valid) != 1:
        raise DataError(
            f"--valid-source-trees {trees} needs one validation set, but there are {len(valid)}; give one "
            "--valid-source, --valid-tsv, --valid-jsonl or --valid-tmx",
            code="count_mismatch",
        )


def check_keys(source_key: str, target_key: str, to_key: str) -> None:
    """Reject the names of columns, because all corpora are plain files."""
    if to_key:
        raise DataError(
            "--to-key has no effect: it is for TSV and JSON lines, but there are only plain files; give --to for each",
            code="unused_option",
        )
    if source_key or target_key:
        raise DataError(
            "--source-key and --target-key have no effect: they are for TSV, JSON lines and TMX, but there are only "
            "plain files",
            code="unused_option",
        )


def assign_languages(corpora: list[Corpus], languages: tuple[str, ...], option: str) -> list[Corpus]:
    """The corpora with the languages of those that have no language column."""
    without = [corpus for corpus in corpora if not corpus.to_key]
    if not languages:
        return corpora
    if len(languages) != len(without):
        kind = " without a language column" if len(without) < len(corpora) else ""
        raise DataError(
            f"got {plural(len(languages), 'language')} in {option} for "
            f"{plural(len(without), 'corpus', 'corpora')}{kind}; give one for each, in the order "
            "plain, TSV, JSON lines, TMX, or none if the model has one target language",
            code="count_mismatch",
        )
    named = iter(languages)
    return [corpus if corpus.to_key else replace(corpus, to=next(named)) for corpus in corpora]
