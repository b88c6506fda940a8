"""Terminology: source phrases and the phrases their translations must contain."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dragoman.errors import DataError, DragomanError, SearchError
from dragoman.search.constraints.phrases import as_list, is_word_boundary, parse_phrase
from dragoman.text import normalize
from dragoman.values import describe_value, render_value

Entries = Mapping[str, str | Sequence[str]] | Iterable[tuple[str, str | Sequence[str]]]


class Terms:
    """Source phrases, each with alternative target phrases, one of which the translation must contain.

    Phrases match whole words (anywhere in scripts without spaces), in any case with `ignore_case`. Where matches
    overlap, the longest wins. A phrase that occurs twice is required twice.
    """

    def __init__(self, entries: Entries, ignore_case: bool = False) -> None:
        self.ignore_case = ignore_case
        self.targets: dict[str, tuple[str, ...]] = {}
        self.sizes: list[int] = []
        for source, targets in entry_pairs(entries):
            self.add(source, targets)

    @classmethod
    def from_lines(cls, lines: Iterable[str], name: str, ignore_case: bool = False) -> Terms:
        """Parse TSV lines: a source phrase and one or more target phrases, separated by tabs."""
        terms = cls({}, ignore_case)
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            source, *targets = line.split("\t")
            while len(targets) > 1 and not targets[-1].strip():  # spreadsheets pad every line with tabs
                targets.pop()
            where = f"{name}, line {number}"
            if not targets:
                message = (
                    f"{where}: no tab in {render_value(line)}; expected a source phrase, a tab and a target phrase"
                )
                raise DataError(message, code="wrong_columns")
            try:
                terms.add(source, targets)
            except DragomanError as error:
                raise DataError(f"{where}: {error}", code=error.code) from None
        return terms

    def add(self, source: Any, targets: Any) -> None:
        """Add a phrase, or more targets for an existing one."""
        phrase = self._fold_case(parse_phrase("find", source))
        found = [parse_phrase("require", target) for target in as_list("require", targets)]
        if not found:
            raise SearchError(f"the term {phrase!r} has no target phrase; give at least one", code="empty_phrase")
        self.targets[phrase] = tuple(dict.fromkeys([*self.targets.get(phrase, ()), *found]))
        if len(phrase) not in self.sizes:
            self.sizes = sorted([*self.sizes, len(phrase)], reverse=True)  # the longest first

    def __len__(self) -> int:
        return len(self.targets)

    def merge(self, other: Terms) -> Terms:
        """Combine the terms of both."""
        both = Terms(self.targets.items(), self.ignore_case)
        for source, targets in other.targets.items():
            both.add(source, targets)
        return both

    def required_by(self, text: str) -> list[tuple[str, ...]]:
        """The target alternatives that the terms in a source text require, in order of occurrence."""
        return [self.targets[phrase] for phrase in self.phrases_in(text)]

    def phrases_in(self, text: str) -> list[str]:
        """The source phrases that a text has, in order of occurrence, without those inside longer ones."""
        text = self._fold_case(normalize(text))
        starts = [index for index in range(len(text)) if is_word_boundary(text, index)]
        taken, covered = list[tuple[int, int]](), bytearray(len(text))
        for size in self.sizes:
            for start in starts:
                end = start + size
                matches = text[start:end] in self.targets and end <= len(text) and is_word_boundary(text, end)
                if matches and covered.find(1, start, end) < 0:
                    taken.append((start, end))
                    covered[start:end] = b"\1" * size
        return [text[start:end] for start, end in sorted(taken)]

    def _fold_case(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text


def entry_pairs(entries: Any) -> Iterator[tuple[Any, Any]]:
    """Iterate over the entries of a mapping or of an iterable of pairs."""
    if isinstance(entries, Mapping):
        yield from entries.items()
        return
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise SearchError(
            f"terms must map source phrases to target phrases, as in {{'cat': 'Katze'}}; got {describe_value(entries)}",
            code="wrong_type",
        )
    for entry in entries:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            message = f"terms must be pairs (source phrase, target phrases); got {describe_value(entry)}"
            raise SearchError(message, code="wrong_type")
        yield entry[0], entry[1]
