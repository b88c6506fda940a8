"""From an English line back to its meaning.

A line belongs to the grammar when the meaning read from it makes sense and says exactly that line again; so
agreement and spelling are checked by the realizer, and the rules need not repeat them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dragoman.demo.corpus import lexicon
from dragoman.demo.corpus import meaning as m
from dragoman.demo.corpus.english import english
from dragoman.demo.corpus.reader import Reader
from dragoman.demo.corpus.sense import makes_sense
from dragoman.errors import DataError

_Rules = tuple[Callable[[Reader], m.Meaning | None], ...]
_FRAGMENTS: _Rules = (
    *(Reader.number, Reader.year, Reader.date, Reader.clock),
    *(Reader.price, Reader.things, Reader.when),
)
_QUESTIONS: _Rules = (Reader.question,)
_SENTENCES: _Rules = (Reader.it_is, Reader.day_is, Reader.there_are, Reader.complex_sentence, Reader.statement)


def parse(line: str) -> m.Meaning:
    """The meaning of an English line of the grammar; DataError for any other line."""
    for meaning in _candidates(line):
        if makes_sense(meaning) and english(meaning) == line:
            return meaning
    raise DataError(
        f"{line!r} is not a line of the embedded corpus; its grammar has number words, dates, clock times, prices and "
        "short sentences around them, such as 'half past seven' or 'Anna bought three apples yesterday.'",
        code="invalid_text",
    )


def _candidates(line: str) -> Iterator[m.Meaning]:
    words, rules = line.split(" "), _FRAGMENTS
    if line.endswith((".", "?")):
        words, rules = line[:-1].split(" "), _SENTENCES if line.endswith(".") else _QUESTIONS
        if words[0] not in (*lexicon.NAMES, "I"):
            words[0] = words[0].lower()
    for rule in rules:
        meaning = rule(Reader(words))
        if meaning is not None:
            yield meaning
