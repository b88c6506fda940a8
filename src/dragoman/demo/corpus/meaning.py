"""The meaning of a line, independent of language: frozen records, which the parser writes and both realizers read.

Words are stored in their English dictionary form (a key of the lexicon). A record is canonical if no other record has
the same English; the sampler draws only canonical records: a bare `Year` is not 2000 .. 2009 (that line is a `Number`),
and a `Price` below one whole unit is in euros ("fifty cents").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, dataclass_transform

Tense = Literal["present", "past", "will", "can", "must"]


@dataclass_transform(frozen_default=True)
class Record:
    """Base class of all meanings; makes each of them a frozen dataclass."""

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)


class Number(Record):
    """A number by itself."""

    value: int


class Year(Record):
    """A year from 1500 to 2099."""

    value: int


class Date(Record):
    """A day of a month; `month` is its English name."""

    day: int
    month: str
    year: int | None = None


class Clock(Record):
    """A time on the twelve-hour clock, hour 1 .. 12; `part` is "in the morning" and the like."""

    hour: int
    minute: int
    part: str | None = None


class Price(Record):
    """Whole units of a currency and cents."""

    currency: str
    whole: int
    cents: int


class Name(Record):
    """A person by name."""

    name: str


class Pronoun(Record):
    """A person by pronoun, in its English subject form."""

    word: str


class Counted(Record):
    """A counted noun: "three red apples", or with the article "the three red apples"."""

    count: int
    noun: str
    adjective: str | None = None
    definite: bool = False


class The(Record):
    """One thing with the definite article: "the car", "the third car", "the red car"."""

    noun: str
    ordinal: int | None = None
    adjective: str | None = None


class Measured(Record):
    """An amount of a substance: "two bottles of water"."""

    count: int
    measure: str
    stuff: str


class Span(Record):
    """A duration: "for two hours"."""

    count: int
    unit: str


class Age(Record):
    """An age in years."""

    years: int


class RelativeDay(Record):
    """yesterday, today, tomorrow."""

    word: str


class Weekday(Record):
    """ "on Monday", or "every Monday"; with `every` the day may also be "day"."""

    day: str
    every: bool = False


class Distance(Record):
    """A point in time relative to now: "two days ago", "in two days"."""

    count: int
    unit: str
    ago: bool


class Place(Record):
    """A place or destination, by its English phrase."""

    phrase: str


class Numbered(Record):
    """A room or platform by number; `opening` is its English opening, such as "in room"."""

    opening: str
    number: int


class Floor(Record):
    """A floor of a house; the first is the one above street level."""

    ordinal: int


Someone = Name | Pronoun
NounPhrase = Name | Pronoun | Counted | The | Measured
Object = NounPhrase | Price | Span | Age
Day = RelativeDay | Weekday | Date | Year | Distance
Where = Place | Numbered | Floor


class When(Record):
    """A day, a time of the day, or both, as an adverbial: "on Monday at seven o'clock"."""

    day: Day | None = None
    clock: Clock | None = None


class Clause(Record):
    """Who does what, with whom, where and when; `fronted` puts the time first."""

    subject: NounPhrase
    verb: str
    tense: Tense
    object: Object | None = None
    companion: Name | Counted | None = None
    where: Where | None = None
    when: When | None = None
    fronted: bool = False


class Statement(Record):
    """A clause as a sentence."""

    clause: Clause


class Question(Record):
    """A clause as a yes-no question."""

    clause: Clause


class Reported(Record):
    """Someone knows, says or hopes that ..."""

    subject: Someone
    verb: str
    clause: Clause


class Because(Record):
    """Someone is tired because ..."""

    subject: Someone
    state: str
    clause: Clause


class ItIs(Record):
    """The clock time as a sentence."""

    clock: Clock


class DayIs(Record):
    """The date as a sentence, of today or tomorrow."""

    day: str
    date: Date


class ThereAre(Record):
    """A number of things that exist in a city."""

    what: Counted
    city: str


Fragment = Number | Year | Date | Clock | Price | Counted | The | Measured | When
Sentence = Statement | Question | Reported | Because | ItIs | DayIs | ThereAre
Meaning = Fragment | Sentence
