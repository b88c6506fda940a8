"""Numbered tags in strings, such as `<0>sign in</0>` of react-i18next: pairs around words."""

from __future__ import annotations

import re
from typing import Final

NUMBERED: Final = re.compile(r"<(?P<slash>/?)(?P<number>\d{1,3})\s*(?P<empty>/?)>")  # text to a parser of HTML


def tag_number(text: str, place: int) -> str:
    """The number of the numbered tag at a place."""
    tag = NUMBERED.match(text, place)
    assert tag is not None
    return tag["number"]


def paired_tags(text: str, start: int, end: int) -> set[int]:
    """The places of numbered tags that come in pairs; all others are placeholders."""
    paired, opened = set[int](), list[tuple[str, int]]()
    waiting = dict[str, int]()  # how many tags of a number are open
    for tag in NUMBERED.finditer(text, start, end):
        number = tag["number"]
        if tag["slash"]:
            while waiting.get(number):
                last, place = opened.pop()
                waiting[last] -= 1
                if last == number:
                    paired |= {place, tag.start()}
                    break
        elif not tag["empty"]:
            opened.append((number, tag.start()))
            waiting[number] = waiting.get(number, 0) + 1
    return paired
