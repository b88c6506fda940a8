"""From a meaning to its German line: agreement, cases and verb positions.

A German clause is a frame. The finite verb is second in a statement, first in a question and last after "dass" and
"weil"; participle, infinitive and separated prefix close the frame; time, company, place and object are in between.
"""

from __future__ import annotations

from typing import Literal, assert_never

from dragoman.demo.corpus import lexicon
from dragoman.demo.corpus import meaning as m
from dragoman.demo.corpus.english import joined, sentence
from dragoman.demo.corpus.lexicon import MEASURES, NOUNS, PRONOUNS, UNITS, Noun
from dragoman.demo.corpus.numerals import german_cardinal, german_ordinal_stem, german_year
from dragoman.demo.corpus.verbs import AUXILIARIES, MODALS, REPORTING, VERBS

Case = Literal["nom", "acc", "dat"]


def _declined(*rows: str) -> dict[str, dict[str, str]]:
    """The forms by case and gender, from one row per case."""
    genders = ("m", "f", "n", "plural")
    return {case: dict(zip(genders, row.split(), strict=False)) for case, row in zip(_CASES, rows, strict=True)}


_CASES = ("nom", "acc", "dat")
_THE = _declined("der die das die", "den die das die", "dem der dem den")
_ONE = _declined("ein eine ein", "einen eine ein", "einem einer einem")
# The adjective carries the ending where "ein" has none, and has a weak ending after "der".
_ENDING_AFTER_ONE = _declined("er e es", "en e es", "en en en")
_ENDING_AFTER_THE = _declined("e e e", "en e e", "en en en")


def german(meaning: m.Meaning) -> str:
    """The German line of a meaning, the only correct one."""
    match meaning:
        case m.Number(value):
            return german_cardinal(value)
        case m.Year(value):
            return german_year(value)
        case m.Date():
            return f"der {_date(meaning, 'e')}"
        case m.Clock():
            return _clock(meaning)
        case m.Price():
            return _price(meaning, "nom")
        case m.Counted() | m.The() | m.Measured():
            return _noun_phrase(meaning, "nom")
        case m.When():
            return _when(meaning)
        case m.Statement(clause):
            return sentence(_main(clause))
        case m.Question(clause):
            return sentence(_question(clause), "?")
        case m.Reported(subject, verb, clause):
            finite = REPORTING[verb].present[_person(subject)]
            return sentence(f"{_noun_phrase(subject, 'nom')} {finite}, dass {_subordinate(clause)}")
        case m.Because(subject, state, clause):
            opening = f"{_noun_phrase(subject, 'nom')} {AUXILIARIES['sein'][_person(subject)]} {lexicon.STATES[state]}"
            return sentence(f"{opening}, weil {_subordinate(clause)}")
        case m.ItIs(clock):
            return sentence(f"es ist {_clock(clock)}")
        case m.DayIs(day, date):
            return sentence(f"{lexicon.RELATIVE_DAYS[day]} ist der {_date(date, 'e')}")
        case m.ThereAre(what, city):
            return sentence(f"in {lexicon.CITIES[city]} gibt es {_noun_phrase(what, 'acc')}")
    assert_never(meaning)


def _counted(count: int, noun: Noun, case: Case, adjective: str = "", definite: bool = False) -> str:
    """A number with its noun; only "ein" is inflected."""
    if count == 1:
        described = f" {adjective}{_ENDING_AFTER_ONE[case][noun.gender]}" if adjective else ""
        return f"{_ONE[case][noun.gender]}{described} {noun.german}"
    ending = "en" if definite or case == "dat" else "e"
    described = f" {adjective}{ending}" if adjective else ""
    article = f"{_THE[case]['plural']} " if definite else ""
    plural = noun.german_dative_plural if case == "dat" else noun.german_plural
    return f"{article}{german_cardinal(count)}{described} {plural}"


def _noun_phrase(phrase: m.NounPhrase, case: Case) -> str:
    match phrase:
        case m.Name(name):
            return name
        case m.Pronoun(word):
            return PRONOUNS[word][1 if case == "nom" else 2]
        case m.Counted(count, noun, adjective, definite):
            return _counted(count, NOUNS[noun], case, lexicon.ADJECTIVES[adjective] if adjective else "", definite)
        case m.The(noun, ordinal, adjective):
            gender = NOUNS[noun].gender
            stems = [german_ordinal_stem(ordinal)] if ordinal else []
            stems += [lexicon.ADJECTIVES[adjective]] if adjective else []
            words = (stem + _ENDING_AFTER_THE[case][gender] for stem in stems)
            return " ".join([_THE[case][gender], *words, NOUNS[noun].german])
        case m.Measured(count, measure, stuff):
            return f"{_counted(count, MEASURES[measure], case)} {lexicon.STUFFS[stuff]}"
    assert_never(phrase)


def _date(date: m.Date, ending: str) -> str:
    day = f"{german_ordinal_stem(date.day)}{ending} {lexicon.MONTHS[date.month]}"
    return f"{day} {german_year(date.year)}" if date.year else day


def _clock(clock: m.Clock) -> str:
    """Half past seven is "halb acht": the half hour, and the five minutes around it, belong to the next hour."""
    part = f" {lexicon.PARTS_OF_DAY[clock.part][0]}" if clock.part else ""
    this, following = german_cardinal(clock.hour), german_cardinal(clock.hour % 12 + 1)
    minute = clock.minute
    if minute == 0:
        return f"{'ein' if clock.hour == 1 else this} Uhr{part}"
    if minute in (25, 30, 35):
        return {25: "fünf vor ", 30: "", 35: "fünf nach "}[minute] + f"halb {following}{part}"
    away, side = (minute, f"nach {this}") if minute < 30 else (60 - minute, f"vor {following}")
    if away == 15:
        return f"Viertel {side}{part}"
    distance = german_cardinal(away) if away % 5 == 0 else _counted(away, UNITS["minute"], "nom")
    return f"{distance} {side}{part}"


def _price(price: m.Price, case: Case) -> str:
    one = _ONE[case]["m"]
    whole = f"{one if price.whole == 1 else german_cardinal(price.whole)} {lexicon.CURRENCIES[price.currency]}"
    if not price.cents:
        return whole
    if price.whole and price.cents >= 10:
        return f"{whole} {german_cardinal(price.cents)}"
    cents = f"{one if price.cents == 1 else german_cardinal(price.cents)} Cent"
    return f"{whole} und {cents}" if price.whole else cents


def _when(when: m.When) -> str:
    clock = f"um {_clock(when.clock)}" if when.clock else ""
    match when.day:
        case None:
            return clock
        case m.RelativeDay(word):
            day = lexicon.RELATIVE_DAYS[word]
        case m.Weekday(name, every):
            day = f"jeden {lexicon.WEEKDAYS.get(name, 'Tag')}" if every else f"am {lexicon.WEEKDAYS[name]}"
        case m.Date():
            day = f"am {_date(when.day, 'en')}"
        case m.Year(value):
            day = f"im Jahr {german_year(value)}"
        case m.Distance(count, unit, ago):
            day = f"{'vor' if ago else 'in'} {_counted(count, UNITS[unit], 'dat')}"
        case _:
            assert_never(when.day)
    return f"{day} {clock}" if clock else day


def _where(where: m.Where) -> str:
    match where:
        case m.Place(phrase):
            return lexicon.PLACES.get(phrase) or lexicon.DESTINATIONS[phrase]
        case m.Numbered(opening, number):
            return f"{lexicon.NUMBERED_PLACES[opening]} {german_cardinal(number)}"
        case m.Floor(ordinal):
            return f"im {german_ordinal_stem(ordinal)}en Stock"
    assert_never(where)


def _object(thing: m.Object) -> str:
    match thing:
        case m.Price():
            return _price(thing, "acc")
        case m.Span(count, unit):
            return _counted(count, UNITS[unit], "acc")
        case m.Age(years):
            return f"{_counted(years, UNITS['year'], 'acc')} alt"
        case _:
            return _noun_phrase(thing, "acc")


def _person(subject: m.NounPhrase) -> int:
    """Which finite form: 0 for ich, 1 for er, 2 for wir and every plural."""
    if isinstance(subject, m.Pronoun):
        return {"I": 0, "we": 2, "they": 2}.get(subject.word, 1)
    return 2 if isinstance(subject, m.Counted) and subject.count > 1 else 1


def _frame(clause: m.Clause) -> tuple[str, str, str]:
    """The finite verb, the end of the frame, and the separable prefix of the finite verb."""
    verb, person = VERBS[clause.verb], _person(clause.subject)
    if clause.tense == "present":
        return verb.present[person], "", verb.prefix
    if clause.tense == "past":
        return AUXILIARIES[verb.auxiliary][person], verb.participle, ""
    return MODALS[clause.tense][person], verb.infinitive, ""


def _middle(clause: m.Clause) -> list[str]:
    """A known person, time, duration, company, place, and new information last."""
    thing = _object(clause.object) if clause.object else ""
    known = isinstance(clause.object, m.Name | m.Pronoun)
    lasting = isinstance(clause.object, m.Span)
    return [
        thing if known else "",
        _when(clause.when) if clause.when and not clause.fronted else "",
        thing if lasting else "",
        f"mit {_noun_phrase(clause.companion, 'dat')}" if clause.companion else "",
        _where(clause.where) if clause.where else "",
        thing if not known and not lasting else "",
    ]


def _main(clause: m.Clause) -> str:
    finite, close, prefix = _frame(clause)
    subject = _noun_phrase(clause.subject, "nom")
    if clause.when and clause.fronted:
        return joined(_when(clause.when), finite, subject, *_middle(clause), close, prefix)
    return joined(subject, finite, *_middle(clause), close, prefix)


def _question(clause: m.Clause) -> str:
    finite, close, prefix = _frame(clause)
    return joined(finite, _noun_phrase(clause.subject, "nom"), *_middle(clause), close, prefix)


def _subordinate(clause: m.Clause) -> str:
    finite, close, prefix = _frame(clause)
    return joined(_noun_phrase(clause.subject, "nom"), *_middle(clause), close, prefix + finite)
