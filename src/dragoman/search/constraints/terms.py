"""A terminology: where a source has this phrase, its translation is to have that one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dragoman.errors import DataError, DragomanError, SearchError
from dragoman.search.constraints.phrases import edge, listed, phrase_of
from dragoman.text import normalize
from dragoman.values import describe_value

Entries = Mapping[str, str | Sequence[str]] | Iterable[tuple[str, str | Sequence[str]]]


class Terms:
    """Source phrases, each with the target phrases of which one will do.

    A phrase is found as whole words, in scripts without spaces anywhere; with `ignore_case` whatever its capitals.
    Where phrases overlap in a source, the longest is taken. One that comes twice is demanded twice.
    """

    def __init__(self, entries: Entries, ignore_case: bool = False) -> None:
        self.ignore_case = ignore_case
        self.targets: dict[str, tuple[str, ...]] = {}
        self.sizes: list[int] = []
        for source, targets in pairs_in(entries):
            self.add(source, targets)

    @classmethod
    def of_lines(cls, lines: Iterable[str], name: str, ignore_case: bool = False) -> Terms:
        """From lines of TSV: the source phrase, a tab, and a target phrase, or several with tabs between."""
        terms = cls({}, ignore_case)
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            source, *targets = line.split("\t")
            while len(targets) > 1 and not targets[-1].strip():  # spreadsheets give every line as many tabs
                targets.pop()
            where = f"{name}, line {number}"
            if not targets:
                raise DataError(f"{where}: no tab in {line!r:.60}; expected a source phrase, a tab and a target phrase")
            try:
                terms.add(source, targets)
            except DragomanError as error:
                raise DataError(f"{where}: {error}") from None
        return terms

    def add(self, source: Any, targets: Any) -> None:
        """One phrase more; its targets join those that it has already."""
        phrase = self._folded(phrase_of("find", source))
        found = [phrase_of("require", target) for target in listed("require", targets)]
        if not found:
            raise SearchError(f"the term {phrase!r} has no target phrase; give at least one")
        self.targets[phrase] = tuple(dict.fromkeys([*self.targets.get(phrase, ()), *found]))
        if len(phrase) not in self.sizes:
            self.sizes = sorted([*self.sizes, len(phrase)], reverse=True)  # the longest first

    def __len__(self) -> int:
        return len(self.targets)

    def with_more(self, other: Terms) -> Terms:
        """The phrases of both."""
        both = Terms(self.targets.items(), self.ignore_case)
        for source, targets in other.targets.items():
            both.add(source, targets)
        return both

    def found(self, text: str) -> list[tuple[str, ...]]:
        """What the terms of a text demand of its translation, in their order."""
        text = self._folded(normalize(text))
        begins = [place for place in range(len(text)) if edge(text, place)]
        taken: list[tuple[int, int]] = []
        for size in self.sizes:
            for start in begins:
                end = start + size
                there = text[start:end] in self.targets and end <= len(text) and edge(text, end)
                if there and all(end <= other or start >= until for other, until in taken):
                    taken.append((start, end))
        return [self.targets[text[start:end]] for start, end in sorted(taken)]

    def _folded(self, text: str) -> str:
        return text.casefold() if self.ignore_case else text


def pairs_in(entries: Any) -> Iterator[tuple[Any, Any]]:
    """The entries of a mapping, or of a list of pairs."""
    if isinstance(entries, Mapping):
        yield from entries.items()
        return
    if isinstance(entries, str | bytes) or not isinstance(entries, Iterable):
        raise SearchError(
            f"terms must map source phrases to target phrases, as in {{'cat': 'Katze'}}; got {describe_value(entries)}"
        )
    for entry in entries:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise SearchError(f"expected pairs (source phrase, target phrases); got {describe_value(entry)}")
        yield entry[0], entry[1]
