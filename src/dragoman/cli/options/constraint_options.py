"""Command-line options for lexical constraints, and their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dragoman.cli import decode_argument, note
from dragoman.cli.input import existing_files
from dragoman.cli.options import NAME, reject_unused
from dragoman.data.corpora.lines import read_line_blocks
from dragoman.errors import DataError, DragomanError
from dragoman.values import plural, render_value

if TYPE_CHECKING:
    from dragoman.search.constraints.terms import Terms
    from dragoman.translation.result import Translation
    from dragoman.translation.translator import Translator

MAX_WARNINGS = 5  # number of lines with unmet phrases to report; --json has them all
CONSTRAINT_OPTIONS = [
    click.option("--terms", type=NAME, multiple=True, metavar="TSV",
                 help="Terminology: source phrase, tab, target phrase, or alternatives separated by tabs."),
    click.option("--ignore-case", is_flag=True, help="Ignore case when matching the source phrases of --terms."),
    click.option("--require", multiple=True, metavar="PHRASE", help="Phrase that every translation must contain."),
    click.option("--avoid", multiple=True, metavar="PHRASE", help="Phrase that no translation may contain."),
    click.option("--avoid-file", type=NAME, multiple=True, help="Phrases to avoid, one per line."),
    click.option("--constraints", type=NAME, metavar="JSONL",
                 help='One object {"require": [...], "avoid": [...]} per line of input.'),
]  # fmt: skip
KEYS = ("require", "avoid")
TERMS = "a source phrase, a tab and a target phrase per line"


def constraint_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options above to a command."""
    for option in reversed(CONSTRAINT_OPTIONS):
        function = option(function)
    return function


def constraint_files(settings: dict[str, Any]) -> list[Path]:
    """The files given by the options; raise if one is missing."""
    names = [
        *settings["terms"],
        *settings["avoid_file"],
        *([settings["constraints"]] if settings["constraints"] else []),
    ]
    return existing_files(names)


class LineConstraints:
    """The constraints of all lines, and those of each line as it arrives."""

    def __init__(self, settings: dict[str, Any]) -> None:
        if not settings["terms"]:
            reject_unused(("ignore_case",), "it applies to the phrases of --terms; add --terms FILE")
        terms, ignore_case = settings.pop("terms"), settings.pop("ignore_case")
        require = [decode_argument("--require", phrase) for phrase in settings.pop("require")]
        avoid = [decode_argument("--avoid", phrase) for phrase in settings.pop("avoid")]
        listed = [Path(name) for name in settings.pop("avoid_file")]
        each = settings.pop("constraints")
        self.all: dict[str, Any] = {}
        self.each = None if each is None else read_constraints(Path(each))
        self.taken, self.warned = 0, 0
        if require or avoid or terms or listed:
            for path in listed:
                avoid += read_avoided(path)
            self.all = {"require": require, "avoid": avoid}
            for name in terms:
                found = read_terms(name, ignore_case)
                self.all["terms"] = found.merge(self.all["terms"]) if "terms" in self.all else found

    def __bool__(self) -> bool:
        return bool(self.all or self.each is not None)

    def take(self, texts: list[str]) -> tuple[list[str], dict[str, Any], DragomanError | None]:
        """The next lines that have constraints, the options of `Translator.stream` for them, and an error.

        The error is that of the following line's constraints, if they are invalid.
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
                f"--constraints has {plural(self.taken, 'line')}, but there are more lines to translate; give one for "
                "each, and {} for a line without constraints",
                code="count_mismatch",
            )
        return texts[: len(found)], {**self.all, "constraints": found}, wrong

    def stream(
        self, translator: Translator, blocks: Iterable[list[str]], options: Mapping[str, Any]
    ) -> Iterator[Translation]:
        """The translations of blocks of lines, under the constraints of each line."""
        from dragoman.translation.overlap import Blocks

        if self.each is None:
            yield from translator.stream(Blocks(blocks), **options, **self.all)
            return
        for block in blocks:
            lines, constraints, wrong = self.take(block)
            yield from translator.stream(lines, **options, **constraints)
            if wrong is not None:
                raise wrong

    def check_all_used(self) -> None:
        """Raise if constraints are left over."""
        if self.each is not None and next(self.each, None) is not None:
            raise DataError(
                f"--constraints has more than the {plural(self.taken, 'line')} to translate; give one for each",
                code="count_mismatch",
            )

    def warn(self, translation: Any, number: int) -> None:
        """Report unmet phrases of the first few lines that have any."""
        if translation.unmet and self.warned < MAX_WARNINGS:
            self.warned += 1
            lacks = ", ".join(map(repr, translation.unmet))
            note(f"line {number} lacks the required {lacks}: the search found no translation with it")


def read_terms(name: str, ignore_case: bool = False) -> Terms:
    """The terms of a TSV file."""
    from dragoman.search.constraints.terms import Terms

    lines = (line for block in read_line_blocks(Path(name), holds=TERMS) for line in block)
    return Terms.from_lines(lines, name, ignore_case)


def read_avoided(path: Path) -> list[str]:
    """The phrases of a file, one per line; empty lines are skipped."""
    from dragoman.search.constraints.phrases import parse_phrase

    found = []
    for number, line in enumerate(
        (line for block in read_line_blocks(path, holds="a phrase per line") for line in block), 1
    ):
        if line.strip():
            try:
                found.append(parse_phrase("avoid", line))
            except DragomanError as error:
                raise DataError(f"{path}, line {number}: {error}", code=error.code) from None
    return found


def read_constraints(path: Path) -> Iterator[Any]:
    """The constraints of each line of JSON."""
    from dragoman.search.constraints.phrases import Constraints

    number = 0
    for block in read_line_blocks(path, holds="a JSON object per line"):
        for line in block:
            number += 1
            try:
                yield Constraints.of(**parse_constraint(line))
            except DragomanError as error:
                raise DataError(f"{path}, line {number}: {error}", code=error.code) from None


def parse_constraint(line: str) -> dict[str, Sequence[Any]]:
    """The JSON object of a line; an empty line has no constraints."""
    if not line.strip():
        return {}
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:  # not JSON, a number with thousands of digits, or nested too deeply
        raise DataError(
            f'not valid JSON: {error}; expected an object such as {{"require": ["Haus"]}}', code="invalid_json"
        ) from None
    if not isinstance(found, dict) or not set(found) <= set(KEYS):
        raise DataError(
            f'expected an object such as {{"require": ["Haus"], "avoid": ["Hof"]}}; got {render_value(line)}',
            code="wrong_type",
        )
    return found
