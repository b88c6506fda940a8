"""The options by which a translation is told what to contain and what not, and the files that they name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from dragoman.cli import tell
from dragoman.cli.input import text_of
from dragoman.cli.options.unused_options import refuse_idle
from dragoman.data.corpora.compression import check_file
from dragoman.data.corpora.reader import read_line_blocks
from dragoman.errors import DataError, DragomanError

TOLD = 5  # lines that are named for what they lack; --json has it for all
OPTIONS = [
    click.option("--terms", type=click.Path(), multiple=True, metavar="TSV",
                 help="A terminology: source phrase, tab, target phrase or several of which one will do."),
    click.option("--ignore-case", is_flag=True, help="Find the phrases of --terms in a source in capitals or not."),
    click.option("--require", multiple=True, metavar="PHRASE", help="What every translation must contain."),
    click.option("--avoid", multiple=True, metavar="PHRASE", help="What no translation may contain."),
    click.option("--avoid-file", type=click.Path(), multiple=True, help="Phrases to avoid, one a line."),
    click.option("--constraints", type=click.Path(), metavar="JSONL",
                 help='For each line an object {"require": [...], "avoid": [...]}.'),
]  # fmt: skip
KEYS = ("require", "avoid")
TERMS = "a source phrase, a tab and a target phrase per line"


def wish_options(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options above."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def wish_files(settings: dict[str, Any]) -> list[Path]:
    """The files that the options name, which must be there."""
    names = [
        *settings["terms"],
        *settings["avoid_file"],
        *([settings["constraints"]] if settings["constraints"] else []),
    ]
    paths = [Path(name) for name in names]
    for path in paths:
        check_file(path)
    return paths


class Wished:
    """What the options ask of all lines, and of each line as it comes."""

    def __init__(self, settings: dict[str, Any]) -> None:
        if not settings["terms"]:
            refuse_idle(("ignore_case",), "it is about the phrases of --terms; add --terms and a file")
        terms, ignore_case = settings.pop("terms"), settings.pop("ignore_case")
        require = [text_of("--require", phrase) for phrase in settings.pop("require")]
        avoid = [text_of("--avoid", phrase) for phrase in settings.pop("avoid")]
        listed = [Path(name) for name in settings.pop("avoid_file")]
        each = settings.pop("constraints")
        self.all: dict[str, Any] = {}
        self.each = None if each is None else constraints_in(Path(each))
        self.taken, self.told = 0, 0
        if require or avoid or terms or listed:
            from dragoman.search.constraints.terms import Terms

            for path in listed:
                avoid += avoided_in(path)
            self.all = {"require": require, "avoid": avoid}
            for name in terms:
                found = Terms.of_lines(
                    (line for block in read_line_blocks(Path(name), holds=TERMS) for line in block), name, ignore_case
                )
                self.all["terms"] = found.with_more(self.all["terms"]) if "terms" in self.all else found

    def __bool__(self) -> bool:
        return bool(self.all or self.each is not None)

    def of(self, texts: list[str]) -> tuple[list[str], dict[str, Any], DragomanError | None]:
        """Of lines that come next, those whose demands are there, with what `Translator.stream` takes for them.

        And what is wrong with the demands of the line after them, if anything.
        """
        if self.each is None:
            return texts, self.all, None
        found: list[Any] = []
        wrong: DragomanError | None = None
        try:
            found.extend(islice(self.each, len(texts)))
        except DragomanError as error:
            wrong = error
        self.taken += len(found)
        if wrong is None and len(found) < len(texts):
            wrong = DataError(
                f"--constraints has {self.taken:,} lines, but there are more to translate; give one for each, {{}} "
                "where nothing is demanded"
            )
        return texts[: len(found)], {**self.all, "demands": found}, wrong

    def refuse_more(self) -> None:
        """Refuse demands that are left over."""
        if self.each is not None and next(self.each, None) is not None:
            raise DataError(
                f"--constraints has more than the {self.taken:,} lines that there were to translate; give one for each"
            )

    def tell(self, translation: Any, number: int) -> None:
        """Say of the first few lines what they lack."""
        if translation.unmet and self.told < TOLD:
            self.told += 1
            lacks = ", ".join(map(repr, translation.unmet))
            tell(
                f"dragoman: line {number} lacks {lacks}, as required: nothing within the limits of the search has it\n"
            )


def avoided_in(path: Path) -> list[str]:
    """The phrases of a file, one a line; empty lines are none."""
    from dragoman.search.constraints.phrases import phrase_of

    found = []
    for number, line in enumerate(
        (line for block in read_line_blocks(path, holds="a phrase per line") for line in block), 1
    ):
        if line.strip():
            try:
                found.append(phrase_of("avoid", line))
            except DragomanError as error:
                raise DataError(f"{path}, line {number}: {error}") from None
    return found


def constraints_in(path: Path) -> Iterator[Any]:
    """What each line of JSON demands."""
    from dragoman.search.constraints.phrases import Demands

    number = 0
    for block in read_line_blocks(path, holds="a JSON object per line"):
        for line in block:
            number += 1
            try:
                yield Demands.of(**constraint(line))
            except DragomanError as error:
                raise DataError(f"{path}, line {number}: {error}") from None


def constraint(line: str) -> dict[str, Sequence[Any]]:
    """The object of a line; an empty line demands nothing."""
    if not line.strip():
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:  # no JSON, a number of thousands of digits, or nested too deep
        raise DataError(f'no JSON: {error}; expected an object such as {{"require": ["Haus"]}}') from None
    if not isinstance(found, dict) or not set(found) <= set(KEYS):
        raise DataError(f'expected an object such as {{"require": ["Haus"], "avoid": ["Hof"]}}; got {line!r:.60}')
    return found
