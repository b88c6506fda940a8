"""An unlimited number of lines, as a function of (seed, index): what is sampled, how often, and for which split.

All randomness is BLAKE2b of counters, so a line is the same on every machine and in every version of Python. The split
of a line is a hash of its English text alone: a line can never be in two splits, whatever the seed and the number.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from hashlib import blake2b
from typing import Literal, TypeVar, get_args

from dragoman.demo.corpus import lexicon
from dragoman.demo.corpus import meaning as m
from dragoman.demo.corpus.english import english
from dragoman.demo.corpus.german import german
from dragoman.demo.corpus.lexicon import NOUNS
from dragoman.demo.corpus.sense import makes_sense
from dragoman.demo.corpus.verbs import REPORTING, VERBS
from dragoman.errors import DataError

T = TypeVar("T")
Split = Literal["train", "valid", "test"]

LONGEST = 12  # English words


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def split_of(line: str) -> Split:
    """The split of an English line, determined by the line alone: 80 % train, 10 % valid, 10 % test."""
    tenth = _hash(f"dragoman embedded split {line}") % 10
    return "test" if tenth == 0 else "valid" if tenth == 1 else "train"


def pairs(n: int, *, split: Split, seed: int = 0) -> Iterator[tuple[str, str]]:
    """The first n English-German pairs of a split, no English line twice.

    They depend on the seed but not on n, so fewer pairs are a prefix of more pairs. To avoid duplicates, the iterator
    keeps about 100 bytes per pair.
    """
    if split not in get_args(Split):
        message = f"split={split!r} is not a split of the embedded corpus; use one of {list(get_args(Split))}"
        raise DataError(message, code="unknown_choice")
    if n < 0:
        raise DataError(f"n={n} must be 0 or more", code="out_of_range")
    return _pairs(n, split, seed)


def _pairs(n: int, split: Split, seed: int) -> Iterator[tuple[str, str]]:
    said: set[int] = set()
    index = 0
    while len(said) < n:
        meaning = meaning_at(seed, index)
        index += 1
        line = english(meaning)
        if split_of(line) == split and (key := _hash(line)) not in said:
            said.add(key)
            yield line, german(meaning)


def meaning_at(seed: int, index: int) -> m.Meaning:
    """The meaning at one index of a seed's sequence, before splitting."""
    draw = _Draw(f"dragoman embedded {seed} {index}")
    kind = draw.weighted(_KINDS)
    while True:
        meaning = kind(draw)
        if makes_sense(meaning) and len(english(meaning).split()) <= LONGEST:
            return meaning


class _Draw:
    """An endless sequence of random choices, determined by a name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.block = 0
        self.numbers: list[int] = []

    def below(self, n: int) -> int:
        if not self.numbers:
            digest = blake2b(f"{self.name} {self.block}".encode()).digest()
            self.numbers = list(struct.unpack("<8Q", digest))
            self.block += 1
        return self.numbers.pop() % n

    def between(self, low: int, high: int) -> int:
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        return self.below(100) < percent

    def one(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def weighted(self, weights: dict[T, int]) -> T:
        left = self.below(sum(weights.values()))
        for choice, weight in weights.items():
            left -= weight
            if left < 0:
                return choice
        raise AssertionError("unreachable: the weights do not add up")


_SIZES = {99: 50, 999: 34, 9_999: 10, 999_999: 6}
_SMALL_SIZES = {12: 68, 99: 29, 999: 3}
_TENSES: dict[m.Tense, int] = {"present": 25, "past": 40, "will": 15, "can": 10, "must": 10}


@cache
def _of_kind(*kinds: str) -> tuple[str, ...]:
    return tuple(key for key, noun in NOUNS.items() if noun.kind in kinds)


def _count(draw: _Draw) -> int:
    return draw.between(1, draw.weighted(_SMALL_SIZES))


def _year(draw: _Draw) -> int:
    return draw.between(1900, 2099) if draw.chance(70) else draw.between(1500, 2099)


def _date(draw: _Draw) -> m.Date:
    year = _year(draw) if draw.chance(35) else None
    return m.Date(draw.between(1, 31), draw.one(tuple(lexicon.MONTHS)), year)


def _clock(draw: _Draw) -> m.Clock:
    minute = draw.between(0, 59) if draw.chance(15) else 5 * draw.below(12)
    part = draw.one(tuple(lexicon.PARTS_OF_DAY)) if draw.chance(20) else None
    return m.Clock(draw.between(1, 12), minute, part)


def _price(draw: _Draw) -> m.Price:
    whole = _count(draw) if draw.chance(90) else 0
    cents = draw.between(1, 99) if draw.chance(60) else 0
    return m.Price(draw.weighted({"euro": 3, "dollar": 1}) if whole else "euro", whole, cents)


def _adjective(draw: _Draw, percent: int) -> str | None:
    return draw.one(tuple(lexicon.ADJECTIVES)) if draw.chance(percent) else None


def _counted(draw: _Draw, nouns: Sequence[str], definite: bool = False) -> m.Counted:
    return m.Counted(_count(draw), draw.one(nouns), _adjective(draw, 30), definite)


def _measured(draw: _Draw) -> m.Measured:
    measure = draw.one(tuple(lexicon.MEASURES))
    return m.Measured(_count(draw), measure, draw.one(lexicon.MEASURED_BY[measure]))


def _things(draw: _Draw, nouns: Sequence[str]) -> m.Counted | m.The:
    form = draw.weighted({"counted": 60, "definite": 10, "ordinal": 15, "the": 15})
    if form in ("counted", "definite"):
        return _counted(draw, nouns, definite=form == "definite")
    ordinal = draw.between(1, draw.weighted({12: 68, 99: 29, 999: 3})) if form == "ordinal" else None
    return m.The(draw.one(nouns), ordinal, _adjective(draw, 10 if ordinal else 60))


def _someone(draw: _Draw) -> m.Someone:
    return m.Name(draw.one(lexicon.NAMES)) if draw.chance(50) else m.Pronoun(draw.one(tuple(lexicon.PRONOUNS)))


def _span(draw: _Draw) -> m.Span:
    return m.Span(draw.between(1, 12) if draw.chance(75) else draw.between(1, 99), draw.one(tuple(lexicon.UNITS)))


def _distance(draw: _Draw) -> m.Distance:
    span = _span(draw)
    return m.Distance(span.count, span.unit, ago=draw.chance(50))


_DAYS: dict[Callable[[_Draw], m.Day | None], int] = {
    lambda draw: None: 25,
    lambda draw: m.RelativeDay(draw.one(tuple(lexicon.RELATIVE_DAYS))): 20,
    lambda draw: m.Weekday(draw.one(tuple(lexicon.WEEKDAYS))): 14,
    lambda draw: m.Weekday(draw.one((*lexicon.WEEKDAYS, "day")), every=True): 14,
    _date: 12,
    lambda draw: m.Year(_year(draw)): 5,
    _distance: 10,
}


def _when(draw: _Draw) -> m.When:
    day = draw.weighted(_DAYS)(draw)
    return m.When(day, _clock(draw) if day is None or draw.chance(30) else None)


_PLACES: dict[str, Callable[[_Draw], m.Where]] = {
    "floor": lambda draw: m.Floor(draw.between(1, 12) if draw.chance(70) else draw.between(1, 99)),
    "room": lambda draw: m.Numbered("in room", draw.between(1, draw.weighted({99: 90, 999: 10}))),
    "platform": lambda draw: m.Numbered("on platform", draw.between(1, 29)),
    "from": lambda draw: m.Numbered("from platform", draw.between(1, 29)),
    **dict.fromkeys(("at", "in_city"), lambda draw: m.Place(draw.one(tuple(lexicon.PLACES)))),
    **dict.fromkeys(("to", "to_city", "to_spot"), lambda draw: m.Place(draw.one(tuple(lexicon.DESTINATIONS)))),
}
_OBJECTS: dict[str, Callable[[_Draw], m.Object | None]] = {  # the other kinds are kinds of nouns
    **{"someone": _someone, "measure": _measured, "drink": _measured, "price": _price},
    "age": lambda draw: m.Age(draw.between(1, 99)),
    "span": lambda draw: _span(draw) if draw.chance(60) else None,
}


def _object(draw: _Draw, kind: str) -> m.Object | None:
    return _OBJECTS[kind](draw) if kind in _OBJECTS else _things(draw, _of_kind(kind))


def _companion(draw: _Draw) -> m.Name | m.Counted:
    return m.Name(draw.one(lexicon.NAMES)) if draw.chance(40) else _counted(draw, _of_kind("people"))


def _clause(draw: _Draw, fronted: bool = False) -> m.Clause:
    verb = VERBS[draw.one(tuple(VERBS))]
    kind = draw.one(verb.subjects.split())
    objects, places = verb.objects.split(), verb.places.split()
    return m.Clause(
        subject=_someone(draw) if kind == "person" else _things(draw, _of_kind(kind)),
        verb=verb.english,
        tense=draw.weighted(_TENSES),
        object=_object(draw, draw.one(objects)) if objects else None,
        companion=_companion(draw) if draw.chance(12) else None,
        where=_PLACES[draw.one(places)](draw) if places and draw.chance(50) else None,
        when=(when := _when(draw) if fronted or draw.chance(65) else None),
        fronted=fronted and when is not None,
    )


def _year_line(draw: _Draw) -> m.Number | m.Year:
    year = _year(draw)
    return m.Number(year) if 2000 <= year < 2010 else m.Year(year)


_KINDS: dict[Callable[[_Draw], m.Meaning], int] = {
    lambda draw: m.Number(draw.between(0, draw.weighted(_SIZES))): 10,
    _year_line: 2,
    _date: 3,
    _clock: 4,
    _price: 4,
    lambda draw: _measured(draw) if draw.chance(20) else _things(draw, tuple(NOUNS)): 6,
    _when: 3,
    lambda draw: m.Statement(_clause(draw, fronted=draw.chance(30))): 40,
    lambda draw: m.Question(_clause(draw)): 8,
    lambda draw: m.Reported(_someone(draw), draw.one(tuple(REPORTING)), _clause(draw)): 9,
    lambda draw: m.Because(_someone(draw), draw.one(tuple(lexicon.STATES)), _clause(draw)): 6,
    lambda draw: m.ItIs(_clock(draw)): 2,
    lambda draw: m.DayIs(draw.one(("today", "tomorrow")), _date(draw)): 1,
    lambda draw: m.ThereAre(_counted(draw, _of_kind("building")), draw.one(tuple(lexicon.CITIES))): 2,
}
