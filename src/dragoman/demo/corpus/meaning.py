"""What a line means, apart from either language: small frozen records that both realizers read and the parser writes.

Words are held by their English dictionary form (a key of the lexicon). A record is canonical when no other record has
the same English; the sampler draws canonical ones only: a bare `Year` is not 2000 .. 2009 (that line is a `Number`),
and a `Price` below one whole unit is in euros ("fifty cents").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tense = Literal["present", "past", "will", "can", "must"]


@dataclass(frozen=True)
class Number:
    """A number by itself."""

    value: int


@dataclass(frozen=True)
class Year:
    """A year from 1500 to 2099."""

    value: int


@dataclass(frozen=True)
class Date:
    """A day of a month, `month` being its English name."""

    day: int
    month: str
    year: int | None = None


@dataclass(frozen=True)
class Clock:
    """A time on the twelve-hour clock, hour 1 .. 12; `part` is "in the morning" and the like."""

    hour: int
    minute: int
    part: str | None = None


@dataclass(frozen=True)
class Price:
    """Whole units of a currency and cents."""

    currency: str
    whole: int
    cents: int


@dataclass(frozen=True)
class Name:
    """A person by name."""

    name: str


@dataclass(frozen=True)
class Pronoun:
    """A person by pronoun, held in its English subject form."""

    word: str


@dataclass(frozen=True)
class Counted:
    """So many of a noun: "three red apples", or with the article "the three red apples"."""

    count: int
    noun: str
    adjective: str | None = None
    definite: bool = False


@dataclass(frozen=True)
class The:
    """One thing with the definite article: "the car", "the third car", "the red car"."""

    noun: str
    ordinal: int | None = None
    adjective: str | None = None


@dataclass(frozen=True)
class Measured:
    """So much of a substance: "two bottles of water"."""

    count: int
    measure: str
    stuff: str


@dataclass(frozen=True)
class Span:
    """A stretch of time: "for two hours"."""

    count: int
    unit: str


@dataclass(frozen=True)
class Age:
    """So many years old."""

    years: int


@dataclass(frozen=True)
class RelativeDay:
    """yesterday, today, tomorrow."""

    word: str


@dataclass(frozen=True)
class Weekday:
    """ "on Monday", or "every Monday"; with `every` the day may also be "day"."""

    day: str
    every: bool = False


@dataclass(frozen=True)
class Distance:
    """A point so far from now: "two days ago", "in two days"."""

    count: int
    unit: str
    ago: bool


@dataclass(frozen=True)
class Place:
    """A place or destination, held by its English phrase."""

    phrase: str


@dataclass(frozen=True)
class Numbered:
    """A room or platform by number; `opening` is its English opening, such as "in room"."""

    opening: str
    number: int


@dataclass(frozen=True)
class Floor:
    """On a floor of a house, counted from one above the street."""

    ordinal: int


Someone = Name | Pronoun
NounPhrase = Name | Pronoun | Counted | The | Measured
Object = NounPhrase | Price | Span | Age
Day = RelativeDay | Weekday | Date | Year | Distance
Where = Place | Numbered | Floor


@dataclass(frozen=True)
class When:
    """A day, a time of the day, or both, as an adverbial: "on Monday at seven o'clock"."""

    day: Day | None = None
    clock: Clock | None = None


@dataclass(frozen=True)
class Clause:
    """Who does what, with whom, where and when; `fronted` puts the time first."""

    subject: NounPhrase
    verb: str
    tense: Tense
    object: Object | None = None
    companion: Name | Counted | None = None
    where: Where | None = None
    when: When | None = None
    fronted: bool = False


@dataclass(frozen=True)
class Statement:
    """A clause as a sentence."""

    clause: Clause


@dataclass(frozen=True)
class Question:
    """A clause as a question for yes or no."""

    clause: Clause


@dataclass(frozen=True)
class Reported:
    """Someone knows, says or hopes that ..."""

    subject: Someone
    verb: str
    clause: Clause


@dataclass(frozen=True)
class Because:
    """Someone is tired because ..."""

    subject: Someone
    state: str
    clause: Clause


@dataclass(frozen=True)
class ItIs:
    """The time of the clock as a sentence."""

    clock: Clock


@dataclass(frozen=True)
class DayIs:
    """The date as a sentence, of today or tomorrow."""

    day: str
    date: Date


@dataclass(frozen=True)
class ThereAre:
    """So many of something exist in a city."""

    what: Counted
    city: str


Fragment = Number | Year | Date | Clock | Price | Counted | The | Measured | When
Sentence = Statement | Question | Reported | Because | ItIs | DayIs | ThereAre
Meaning = Fragment | Sentence
