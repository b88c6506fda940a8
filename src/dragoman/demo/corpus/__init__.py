"""A corpus that is always at hand: English-German pairs without end, with one right answer for each English line.

Numbers, dates, clock times, prices and short sentences around them, made by rule. The two languages put the same
things in other places ("fünfundzwanzig", "halb acht", the verb at the end), so attention has something to show; and
`translate` says what is right, so exact match is a true score.

    for english, german in pairs(20_000, split="train"): ...
    translate("half past seven")  # "halb acht"
"""

from __future__ import annotations

from dragoman.demo.corpus.german import german
from dragoman.demo.corpus.parser import parse
from dragoman.demo.corpus.sample import Split, pairs, split_of

__all__ = ["Split", "pairs", "split_of", "translate"]


def translate(english: str) -> str:
    """The right German for an English line of the corpus; DataError for a line outside its grammar."""
    return german(parse(english))
