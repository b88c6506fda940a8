"""No-break spaces, which models read as ordinary ones: those next to numbers are put back."""

from __future__ import annotations

import re
from typing import Final

NO_BREAK: Final = re.compile("[\u00a0\u202f]")
NUMBER: Final = re.compile(r"(?<![\w.,])\d+(?:[.,]\d+)*(?!\w)")


def restore_no_break(source: str, target: str) -> str:
    """The target with the no-break spaces of the source before and after numbers that the target has once.

    Its length stays the same.
    """
    if NO_BREAK.search(source) is None:
        return target
    places, characters = dict[str, list[re.Match[str]]](), list(target)
    for found in NUMBER.finditer(target):
        places.setdefault(plain_number(found), []).append(found)
    for number in NUMBER.finditer(source):
        same = places.get(plain_number(number), [])
        if len(same) == 1:
            ends = (number.start() - 1, same[0].start() - 1), (number.end(), same[0].end())
            for own, other in ends:
                inside = 0 < own < len(source) - 1 and 0 < other < len(target) - 1
                if inside and NO_BREAK.match(source, own) and target[other] == " ":
                    characters[other] = source[own]
    return "".join(characters)


def plain_number(found: re.Match[str]) -> str:
    """A number with points alone: 1.5 is 1,5 in other languages."""
    return found[0].replace(",", ".")
