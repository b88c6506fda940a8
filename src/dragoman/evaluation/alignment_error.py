"""Precision, recall and alignment error rate against gold word alignments (Och and Ney, 2003)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman.data.corpora.lines import read_line_blocks
from dragoman.errors import DataError
from dragoman.values import plural

Link = tuple[int, int]
LINK_PATTERN: Final = re.compile(r"(\d+)(-|p|\?)(\d+)")


@dataclass(frozen=True)
class GoldAlignment:
    """The sure links of one sentence pair, and all possible links, which include the sure ones."""

    sure: frozenset[Link]
    possible: frozenset[Link]

    @classmethod
    def parse(cls, line: str, first: int = 0) -> GoldAlignment:
        """Parse a line of links: `i-j` is sure, `ipj` is possible; `first` is the number of the first word, 0 or 1."""
        sure: set[Link] = set()
        possible: set[Link] = set()
        for word in line.split():
            match = LINK_PATTERN.fullmatch(word)
            if match is None:
                message = f"{word!r} is not a link; write i-j (sure) or ipj (possible), such as 0-0 1p2"
                raise DataError(message, code="invalid_link")
            link = (int(match[1]) - first, int(match[3]) - first)
            if min(link) < 0:
                message = f"{word!r} has a word number below {first}, the number of the first word"
                raise DataError(message, code="out_of_range")
            (sure if match[2] == "-" else possible).add(link)
        return cls(frozenset(sure), frozenset(sure | possible))


def read_gold(path: Path, first: int = 0) -> list[GoldAlignment]:
    """Read a file with a line of links for each sentence pair."""
    found = []
    for number, line in enumerate((line for block in read_line_blocks(path) for line in block), 1):
        try:
            found.append(GoldAlignment.parse(line, first))
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}", code=error.code) from None
    return found


@dataclass(frozen=True)
class AlignmentScore:
    """Precision, recall and error rate, from 0 to 1."""

    precision: float
    recall: float
    error_rate: float


def score_alignment(found: Sequence[Iterable[Link]], gold: Sequence[GoldAlignment]) -> AlignmentScore:
    """AER = 1 - (|A and S| + |A and P|) / (|A| + |S|), with precision by P and recall by S, over all sentences."""
    if len(found) != len(gold):
        message = f"got {plural(len(found), 'alignment')} for {plural(len(gold), 'gold alignment')}; give one for each"
        raise DataError(message, code="count_mismatch")
    links = [set(each) for each in found]
    total, sure = sum(map(len, links)), sum(len(g.sure) for g in gold)
    in_sure = sum(len(a & g.sure) for a, g in zip(links, gold, strict=True))
    in_possible = sum(len(a & g.possible) for a, g in zip(links, gold, strict=True))
    if not total + sure:
        raise DataError("there are no links to compare", code="no_data")
    return AlignmentScore(
        in_possible / max(1, total), in_sure / max(1, sure), 1 - (in_sure + in_possible) / (total + sure)
    )
