"""Options for sentences and files of sentences: `--text` and `--translation`, `--source` and `--target`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click

from dragoman.cli import decode_argument
from dragoman.cli.input import check_readable
from dragoman.cli.options import FILE
from dragoman.errors import DataError

SENTENCE_OPTIONS = (
    click.option("--text", metavar="SENTENCE", help="A sentence."),
    click.option("--translation", metavar="SENTENCE", help="Its translation."),
    click.option("--source", type=FILE, help="Instead of --text: a file of sentences, one per line."),
    click.option("--target", type=FILE, help="Instead of --translation: a file of translations."),
)


def sentence_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add `text`, `translation`, `source` and `target` to a command."""
    for option in reversed(SENTENCE_OPTIONS):
        function = option(function)
    return function


def check_pair_options(
    text: str | None, translation: str | None, source: object, target: object, *, paired: bool = True
) -> None:
    """Reject sentences mixed with files and, if a command needs pairs, one side without the other."""
    for sentence, file, names in (
        (text, source, "--text and --source"),
        (text, target, "--text and --target"),
        (translation, source, "--translation and --source"),
    ):
        if sentence is not None and file is not None:
            raise DataError(
                f"{names} cannot be combined; give sentences with --text and --translation, or files with --source and "
                "--target",
                code="conflicting_options",
            )
    if text is None and source is None:
        lacking = "--translation requires --text" if translation is not None else ""
        lacking = "--target requires --source" if target is not None else lacking
        message = lacking or "there is no sentence; give --text SENTENCE, or --source FILE with one sentence per line"
        raise DataError(message, code="missing_option")
    if paired and translation is None and target is None:
        given, lacking = ("--text", "--translation") if text is not None else ("--source", "--target")
        raise DataError(f"{given} requires {lacking}", code="missing_option")


def read_given_pairs(
    text: str | None, translation: str | None, source: Path | None, target: Path | None
) -> Iterator[tuple[str, str | None]]:
    """The sentences of checked options, each with its translation if given."""
    if text is not None:
        given = None if translation is None else decode_argument("--translation", translation)
        return iter([(decode_argument("--text", text), given)])
    assert source is not None
    check_sentence_file(source, "--text")
    if target is not None:
        check_sentence_file(target, "--translation")
    return read_file_pairs(source, target)


def check_sentence_file(path: Path, sentence_option: str) -> None:
    """Reject a file that cannot be read; suggest another option if a sentence was given instead of a file."""
    check_readable([path], f"use {sentence_option} for a sentence")


def read_file_pairs(source: Path, target: Path | None) -> Iterator[tuple[str, str | None]]:
    """The lines of a file, each with the line of the other file if given."""
    from dragoman.data.corpora.corpus import Corpus
    from dragoman.data.corpora.lines import read_line_blocks
    from dragoman.data.corpora.reader import read_pairs

    if target is None:
        for block in read_line_blocks(source):
            yield from ((line, None) for line in block)
        return
    for sources, targets in read_pairs(Corpus(source, target), 4096):
        yield from zip(sources, targets, strict=True)
