"""Compare the numbers of a text with those of its translation."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from typing import Final

SEPARATORS: Final = r".,:'\u2019\u00a0\u2009\u202f\u066b\u066c"
RUN: Final = re.compile(rf"\d[\d {SEPARATORS}]*")  # fast to find
# 1,250.50 and 9:30 are one number, and so is 12 500 with any space; 1.5.2024 is a date, of three.
NUMBER: Final = re.compile(
    r"(?<![\d.,])(?P<date>\d{1,2}\.\d{1,2}\.(?:\d{4}|\d{2})(?!\d|[.,]\d))"
    r"|(?<!\d)\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)(?:[.,]\d+)?"
    rf"|\d+(?:[{SEPARATORS}]\d+)*"
)
LEADING_ZEROS: Final = re.compile(r"0+(?=\d)")  # not those of 0.5
DIGITS: Final = re.compile(r"\d+")
MAX_SPELLED: Final = 12  # numbers up to here are often written as words


def numbers_differ(source: str, target: str) -> bool:
    """Whether a translation lacks a number, or has another one.

    Separators do not count: 1,250.50 is 1.250,50. A small number that only one side has may be a word on the other.
    """
    if not (DIGITS.search(source) or DIGITS.search(target)):
        return False
    before, after = Counter(find_numbers(source)), Counter(find_numbers(target))
    lost, new = before - after, after - before
    if lost and new:
        return True
    return any(len(number) > 2 or int(number) > MAX_SPELLED for number in lost or new)


def find_numbers(text: str) -> Iterator[str]:
    """The digits of each number of a text, without separators, except in numbers such as 0.5."""
    for found in (one for run in RUN.finditer(text) for one in NUMBER.finditer(run[0])):
        for part in found[0].split(".") if found["date"] else (found[0],):
            groups = DIGITS.findall(LEADING_ZEROS.sub("", part, count=1) if part[0] == "0" else part)
            digits = "".join(groups) if len(groups) != 2 or len(part) > 3 else ".".join(groups)
            yield digits if digits.isascii() else "".join(str(unicodedata.decimal(one, one)) for one in digits)
