"""Word alignments against those of people: precision, recall and alignment error rate (Och and Ney, 2003)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.corpora.reader import read_line_blocks
from dragoman.errors import DataError

Link = tuple[int, int]
FORM = re.compile(r"(\d+)(-|p|\?)(\d+)")


@dataclass(frozen=True)
class Gold:
    """The links of one sentence pair that a person is sure of, and all that are possible, the sure ones among them."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @classmethod
    def parse(cls, line: str, first: int = 0) -> Gold:
        """A line of links: `i-j` is sure and `ipj` possible; `first` is the number of the first word, 0 or 1."""
        sure: set[Link] = set()
        possible: set[Link] = set()
        for word in line.split():
            match = FORM.fullmatch(word)
            if match is None:
                raise DataError(f"{word!r} is no link; expected i-j (sure) or ipj (possible), such as 0-0 1p2")
            link = (int(match[1]) - first, int(match[3]) - first)
            if min(link) < 0:
                raise DataError(f"{word!r} names a word before the first, which has the number {first}")
            (sure if match[2] == "-" else possible).add(link)
        return cls(frozenset(sure), frozenset(sure | possible))


def read_gold(path: Path, first: int = 0) -> list[Gold]:
    """A line of links for each sentence pair."""
    found = []
    for number, line in enumerate((line for block in read_line_blocks(path) for line in block), 1):
        try:
            found.append(Gold.parse(line, first))
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
    return found


@dataclass(frozen=True)
class Agreement:
    """How well links agree with a person's: shares from 0 to 1."""

    precision: float
    recall: float
    error_rate: float


def agreement(found: Sequence[Iterable[Link]], gold: Sequence[Gold]) -> Agreement:
    """AER = 1 - (|A and S| + |A and P|) / (|A| + |S|), with precision by P and recall by S, over all sentences."""
    if len(found) != len(gold):
        raise DataError(f"{len(found):,} alignments came for {len(gold):,} of people; the counts must be equal")
    links = [set(each) for each in found]
    total, sure = sum(map(len, links)), sum(len(g.sure) for g in gold)
    in_sure = sum(len(a & g.sure) for a, g in zip(links, gold, strict=True))
    in_possible = sum(len(a & g.possible) for a, g in zip(links, gold, strict=True))
    if not total + sure:
        raise DataError("there is no link to compare, neither found nor made by people")
    return Agreement(in_possible / max(1, total), in_sure / max(1, sure), 1 - (in_sure + in_possible) / (total + sure))
