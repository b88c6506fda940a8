"""From a meaning to its English line."""

from __future__ import annotations

from typing import assert_never

from dragoman.demo.corpus import meaning as m
from dragoman.demo.corpus.lexicon import DESTINATIONS, MEASURES, NOUNS, PRONOUNS, UNITS, Noun
from dragoman.demo.corpus.numerals import english_cardinal, english_ordinal, english_year
from dragoman.demo.corpus.verbs import MODALS, REPORTING, VERBS


def english(meaning: m.Meaning) -> str:
    """The English line of a meaning: phrases unchanged, sentences with a capital and a period."""
    match meaning:
        case m.Number(value):
            return english_cardinal(value)
        case m.Year(value):
            return english_year(value)
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
            return sentence(_clause(clause))
        case m.Question(clause):
            return sentence(_question(clause), "?")
        case m.Reported(subject, verb, clause):
            form = _form(subject, REPORTING[verb].english, REPORTING[verb].third)
            return sentence(f"{_noun_phrase(subject)} {form} that {_clause(clause)}")
        case m.Because(subject, state, clause):
            return sentence(f"{_noun_phrase(subject)} {_be(subject)} {state} because {_clause(clause)}")
        case m.ItIs(clock):
            return sentence(f"it is {_clock(clock)}")
        case m.DayIs(day, date):
            return sentence(f"{day} is {_date(date)}")
        case m.ThereAre(what, city):
            return sentence(f"there {'is' if what.count == 1 else 'are'} {_noun_phrase(what)} in {city}")
    assert_never(meaning)


def joined(*words: str) -> str:
    """The non-empty words, joined by spaces."""
    return " ".join(word for word in words if word)


def sentence(words: str, stop: str = ".") -> str:
    """Words with a capital and a period, or another final mark."""
    return words[0].upper() + words[1:] + stop


def _counted(count: int, noun: Noun, before: str = "") -> str:
    return f"{english_cardinal(count)} {before}{noun.english if count == 1 else noun.english_plural}"


def _noun_phrase(phrase: m.NounPhrase, as_object: bool = False) -> str:
    match phrase:
        case m.Name(name):
            return name
        case m.Pronoun(word):
            return PRONOUNS[word][0] if as_object else word
        case m.Counted(count, noun, adjective, definite):
            return ("the " if definite else "") + _counted(count, NOUNS[noun], f"{adjective} " if adjective else "")
        case m.The(noun, ordinal, adjective):
            return joined("the", english_ordinal(ordinal) if ordinal else "", adjective or "", noun)
        case m.Measured(count, measure, stuff):
            return f"{_counted(count, MEASURES[measure])} of {stuff}"
    assert_never(phrase)


def _date(date: m.Date) -> str:
    return f"the {english_ordinal(date.day)} of {date.month}" + (f" {english_year(date.year)}" if date.year else "")


def _clock(clock: m.Clock) -> str:
    minute = clock.minute
    hour = english_cardinal(clock.hour if minute <= 30 else clock.hour % 12 + 1)
    part = f" {clock.part}" if clock.part else ""
    if minute == 0:
        return f"{hour} o'clock{part}"
    away, side = (minute, "past") if minute <= 30 else (60 - minute, "to")
    if away in (15, 30):
        distance = "half" if away == 30 else "quarter"
    else:
        distance = english_cardinal(away) if away % 5 == 0 else _counted(away, UNITS["minute"])
    return f"{distance} {side} {hour}{part}"


def _price(price: m.Price) -> str:
    whole = f"{english_cardinal(price.whole)} {price.currency}{'' if price.whole == 1 else 's'}"
    if not price.cents:
        return whole
    if price.whole and price.cents >= 10:
        return f"{whole} {english_cardinal(price.cents)}"
    cents = f"{english_cardinal(price.cents)} cent{'' if price.cents == 1 else 's'}"
    return f"{whole} and {cents}" if price.whole else cents


def _when(when: m.When) -> str:
    clock = f"at {_clock(when.clock)}" if when.clock else ""
    match when.day:
        case None:
            return clock
        case m.RelativeDay(word):
            day = word
        case m.Weekday(name, every):
            day = f"{'every' if every else 'on'} {name}"
        case m.Date():
            day = f"on {_date(when.day)}"
        case m.Year(value):
            day = f"in {english_year(value)}"
        case m.Distance(count, unit, ago):
            day = f"{_counted(count, UNITS[unit])} ago" if ago else f"in {_counted(count, UNITS[unit])}"
        case _:
            assert_never(when.day)
    return f"{day} {clock}" if clock else day


def _where(where: m.Where) -> str:
    match where:
        case m.Place(phrase):
            return phrase
        case m.Numbered(opening, number):
            return f"{opening} {english_cardinal(number)}"
        case m.Floor(ordinal):
            return f"on the {english_ordinal(ordinal)} floor"
    assert_never(where)


def _object(thing: m.Object) -> str:
    match thing:
        case m.Price():
            return _price(thing)
        case m.Span(count, unit):
            return f"for {_counted(count, UNITS[unit])}"
        case m.Age(years):
            return f"{_counted(years, UNITS['year'])} old"
        case _:
            return _noun_phrase(thing, as_object=True)


def _form(subject: m.NounPhrase, plain: str, third: str) -> str:
    plural = subject in (m.Pronoun("I"), m.Pronoun("we"), m.Pronoun("they"))
    return plain if plural or (isinstance(subject, m.Counted) and subject.count > 1) else third


def _be(subject: m.NounPhrase) -> str:
    return "am" if subject == m.Pronoun("I") else _form(subject, "are", "is")


def _after_verb(clause: m.Clause) -> list[str]:
    """Object, destination, company, place, duration, time: German nearly reverses this order."""
    thing = _object(clause.object) if clause.object else ""
    where = _where(clause.where) if clause.where else ""
    lasting = isinstance(clause.object, m.Span)
    going = isinstance(clause.where, m.Place) and clause.where.phrase in DESTINATIONS
    return [
        "" if lasting else thing,
        where if going else "",
        f"with {_noun_phrase(clause.companion)}" if clause.companion else "",
        "" if going else where,
        thing if lasting else "",
        _when(clause.when) if clause.when and not clause.fronted else "",
    ]


def _finite(clause: m.Clause) -> tuple[str, str]:
    """The finite verb and what follows it: ("will", "buy"), ("buys", "")."""
    verb, subject = VERBS[clause.verb], clause.subject
    if clause.tense in MODALS:
        return clause.tense, verb.english
    if verb.english == "be":
        return _be(subject), ""
    if verb.english == "be born":
        return ("was" if subject == m.Pronoun("I") else _form(subject, "were", "was")), "born"
    return (verb.past if clause.tense == "past" else _form(subject, verb.english, verb.third)), ""


def _clause(clause: m.Clause) -> str:
    first = _when(clause.when) if clause.when and clause.fronted else ""
    return joined(first, _noun_phrase(clause.subject), *_finite(clause), *_after_verb(clause))


def _question(clause: m.Clause) -> str:
    finite, rest = _finite(clause)
    if clause.tense not in MODALS and clause.verb not in ("be", "be born"):
        finite, rest = ("did" if clause.tense == "past" else _form(clause.subject, "do", "does")), clause.verb
    return joined(finite, _noun_phrase(clause.subject), rest, *_after_verb(clause))
