"""Which meanings belong to the corpus: ranges of numbers, what goes with which verb, which time with which tense.

One predicate serves both directions: the sampler discards meanings that fail it, and the parser rejects them.
"""

from __future__ import annotations

import calendar
from typing import assert_never

from dragoman.demo.corpus import lexicon
from dragoman.demo.corpus import meaning as m
from dragoman.demo.corpus.lexicon import NOUNS
from dragoman.demo.corpus.numerals import LARGEST
from dragoman.demo.corpus.verbs import MODALS, VERBS

_NEED_A_PLACE = ("live", "drive", "fly", "go")
_FIRST_FUTURE_YEAR = 2030  # fixed, so that the corpus is the same in every year


def makes_sense(meaning: m.Meaning) -> bool:
    """Whether a meaning belongs to the corpus."""
    match meaning:
        case m.Number(value):
            return 0 <= value <= LARGEST
        case m.Year(value):
            return 1500 <= value <= 2099
        case m.Date():
            return _date(meaning)
        case m.Clock():
            return _clock(meaning)
        case m.Price():
            return _price(meaning)
        case m.Counted() | m.The() | m.Measured():
            return _noun_phrase(meaning)
        case m.When():
            return _when(meaning)
        case m.Statement(clause):
            return _clause(clause)
        case m.Question(clause):
            return _clause(clause) and not clause.fronted
        case m.Reported(subject, _, clause) | m.Because(subject, _, clause):
            twice = isinstance(subject, m.Name) and subject in (clause.subject, clause.object, clause.companion)
            return _clause(clause) and not clause.fronted and not twice
        case m.ItIs(clock):
            return _clock(clock)
        case m.DayIs(day, date):
            return day != "yesterday" and _date(date)
        case m.ThereAre(what, _):
            return _noun_phrase(what) and not what.definite and NOUNS[what.noun].kind == "building"
    assert_never(meaning)


def _countable(n: int) -> bool:
    """Numbers that may precede a noun: German has no settled form for 101 of something."""
    return n == 1 or (n > 1 and n % 100 != 1)


def _date(date: m.Date) -> bool:
    month = list(lexicon.MONTHS).index(date.month) + 1
    return 1 <= date.day <= calendar.monthrange(date.year or 2000, month)[1]


def _clock(clock: m.Clock) -> bool:
    hours = lexicon.PARTS_OF_DAY[clock.part][1] if clock.part else range(1, 13)
    return clock.hour in hours and 0 <= clock.minute < 60


def _price(price: m.Price) -> bool:
    if price.whole == 0:
        return price.currency == "euro" and 0 < price.cents < 100
    return _countable(price.whole) and 0 <= price.cents < 100


def _noun_phrase(phrase: m.NounPhrase) -> bool:
    match phrase:
        case m.Name() | m.Pronoun():
            return True
        case m.Counted(count, noun, adjective, definite):
            return _countable(count) and not (definite and count == 1) and _describes(adjective, noun)
        case m.The(noun, ordinal, adjective):
            return (ordinal is None or 1 <= ordinal <= 999) and _describes(adjective, noun)
        case m.Measured(count, measure, stuff):
            return _countable(count) and stuff in lexicon.MEASURED_BY[measure]
    assert_never(phrase)


def _describes(adjective: str | None, noun: str) -> bool:
    return adjective is None or adjective in lexicon.ADJECTIVES_FOR.get(NOUNS[noun].kind, lexicon.ADJECTIVES)


def _when(when: m.When) -> bool:
    if when.clock and not _clock(when.clock):
        return False
    match when.day:
        case None:
            return when.clock is not None
        case m.Date():
            return _date(when.day) and not (when.day.year and when.clock)
        case m.Year():
            return when.clock is None
        case m.Distance(count, _, _):
            return when.clock is None and _countable(count)
        case _:
            return True


def _clause(clause: m.Clause) -> bool:
    verb = VERBS[clause.verb]
    return (
        _noun_phrase(clause.subject)
        and subject_kind(clause.subject) in verb.subjects.split()
        and _has_its_object(clause)
        and _has_its_place(clause)
        and _has_good_company(clause)
        and _tense_fits(clause)
        and (_when_fits(clause, clause.when) if clause.when else not clause.fronted)
    )


def subject_kind(subject: m.NounPhrase) -> str:
    """The kind of a subject, as verbs name it."""
    match subject:
        case m.Name() | m.Pronoun():
            return "person"
        case m.Counted() | m.The():
            return NOUNS[subject.noun].kind
        case m.Measured():
            return "measure"
    assert_never(subject)


def _has_its_object(clause: m.Clause) -> bool:
    kinds = VERBS[clause.verb].objects.split()
    match clause.object:
        case None:
            return kinds in ([], ["span"])
        case m.Name() | m.Pronoun():
            return "someone" in kinds and clause.object != clause.subject
        case m.Counted() | m.The():
            return NOUNS[clause.object.noun].kind in kinds and _noun_phrase(clause.object)
        case m.Measured(_, measure, _):
            return _noun_phrase(clause.object) and ("measure" in kinds or ("drink" in kinds and measure != "kilo"))
        case m.Price():
            return "price" in kinds and _price(clause.object)
        case m.Span(count, _):
            return "span" in kinds and _countable(count)
        case m.Age(years):
            return "age" in kinds and _countable(years)
    assert_never(clause.object)


def _has_its_place(clause: m.Clause) -> bool:
    kinds = VERBS[clause.verb].places.split()
    match clause.where:
        case None:
            return clause.verb not in _NEED_A_PLACE
        case m.Place(phrase):
            city = phrase.split()[-1] in lexicon.CITIES
            if phrase in lexicon.PLACES:
                return "at" in kinds or ("in_city" in kinds and city)
            return "to" in kinds or ("to_city" if city else "to_spot") in kinds
        case m.Floor(ordinal):
            return "floor" in kinds and 1 <= ordinal <= 999
        case m.Numbered(opening, number):
            kind = {"in room": "room", "on platform": "platform", "from platform": "from"}[opening]
            on_rails = not (isinstance(clause.subject, m.Counted | m.The) and clause.subject.noun == "bus")
            return kind in kinds and number > 0 and (kind == "room" or on_rails)
    assert_never(clause.where)


def _has_good_company(clause: m.Clause) -> bool:
    verb, companion = VERBS[clause.verb], clause.companion
    if companion is None:
        return True
    if verb.stative or not verb.places or subject_kind(clause.subject) != "person" or companion == clause.subject:
        return False
    if isinstance(clause.object, m.Name | m.Pronoun | m.Counted | m.The) and "people" in verb.objects:
        return False
    if isinstance(companion, m.Name):
        return True
    few = 1 <= companion.count <= 12 and not companion.definite
    return few and NOUNS[companion.noun].kind == "people" and _noun_phrase(companion)


def _tense_fits(clause: m.Clause) -> bool:
    verb = VERBS[clause.verb]
    if verb.english == "be born":
        return clause.tense == "past" and (clause.where is not None or clause.when is not None)
    if isinstance(clause.object, m.Span) and clause.tense == "present":
        return clause.when is not None and isinstance(clause.when.day, m.Weekday)
    if not verb.past:
        return clause.tense == "present" and clause.when is None
    return not (verb.stative and clause.tense in ("can", "must"))


def _lasts_within(span: m.Span, when: m.When) -> bool:
    """Nobody works for two months on Monday."""
    if when.clock:
        return False
    return isinstance(when.day, m.Year) or span.unit == "minute" or (span.unit == "hour" and span.count <= 12)


def _when_fits(clause: m.Clause, when: m.When) -> bool:
    """English uses the present only for habits and timetables, and no past tense for tomorrow."""
    if not _when(when) or (isinstance(clause.object, m.Span) and not _lasts_within(clause.object, when)):
        return False
    scheduled = subject_kind(clause.subject) in ("vehicle", "event")
    match when.day:
        case m.Weekday(_, every) if every:
            return clause.tense == "present" and not VERBS[clause.verb].stative
        case m.RelativeDay(word):
            allowed = {"yesterday": "past", "today": "present past will can must", "tomorrow": "will can must"}[word]
            return clause.tense in allowed.split() or (scheduled and clause.tense == "present" and word == "tomorrow")
        case m.Distance(_, _, ago):
            return clause.tense == "past" if ago else clause.tense in MODALS
        case m.Year(year) | m.Date(_, _, int(year)):
            future = year >= _FIRST_FUTURE_YEAR
            return year >= 1900 and (clause.tense in MODALS if future else clause.tense == "past")
        case m.Weekday() | m.Date():
            return clause.tense != "present" or scheduled
        case None:
            return not (clause.tense == "present" and VERBS[clause.verb].stative)
    assert_never(when.day)
