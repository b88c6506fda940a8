"""From an English line back to its meaning: the rules of the grammar, by recursive descent over the words of a line.

Each rule parses from the current position and returns None if it fails; `attempt` then goes back. The rules are looser
than the grammar: a line belongs to the grammar if its meaning makes sense and is realized as exactly the same line.
Thus the realizer checks agreement and spelling, and the rules need not repeat them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from dragoman.demo.corpus import lexicon
from dragoman.demo.corpus import meaning as m
from dragoman.demo.corpus.english import english
from dragoman.demo.corpus.lexicon import Noun
from dragoman.demo.corpus.numerals import Read, read_cardinal, read_ordinal, read_year
from dragoman.demo.corpus.sense import makes_sense
from dragoman.demo.corpus.verbs import REPORTING, VERBS
from dragoman.errors import DataError

T = TypeVar("T")


def _by_form(nouns: dict[str, Noun]) -> dict[str, str]:
    return {form: key for key, noun in nouns.items() for form in (noun.english, noun.english_plural)}


_NOUN_FORMS, _MEASURE_FORMS, _UNIT_FORMS = map(_by_form, (lexicon.NOUNS, lexicon.MEASURES, lexicon.UNITS))
_CURRENCY_FORMS = {form: key for key in lexicon.CURRENCIES for form in (key, f"{key}s")}
_OBJECT_PRONOUNS = {row[0]: subject for subject, row in lexicon.PRONOUNS.items()}
_SOMEONE: dict[str, m.Someone] = {
    **{name: m.Name(name) for name in lexicon.NAMES},
    **{word: m.Pronoun(word) for word in lexicon.PRONOUNS},
}
_TENSES: dict[str, m.Tense] = {"do": "present", "does": "present", "did": "past"}
_MODALS: dict[str, m.Tense] = {"will": "will", "can": "can", "must": "must"}
_VERB_FORMS: dict[str, tuple[str, m.Tense]] = {
    **{form: (verb.english, "present") for verb in VERBS.values() if verb.third for form in (verb.english, verb.third)},
    **{verb.past: (verb.english, "past") for verb in VERBS.values() if verb.past},
    **dict.fromkeys(("am", "is", "are"), ("be", "present")),
    "were born": ("be born", "past"),
}
_REPORTING_FORMS = {form: verb.english for verb in REPORTING.values() for form in (verb.english, verb.third)}


class Reader:
    """A position in a line of words; each rule is named after what it parses."""

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.at = 0

    def attempt(self, rule: Callable[[], T]) -> T:
        """The result of a rule, or None with the position restored."""
        start = self.at
        found = rule()
        if found is None:
            self.at = start
        return found

    def take(self, phrase: str) -> bool:
        """Skip a phrase if it is next."""
        words = phrase.split()
        if self.words[self.at : self.at + len(words)] != words:
            return False
        self.at += len(words)
        return True

    def one_of(self, table: dict[str, T]) -> T | None:
        """The entry of the longest phrase, of at most three words, that is next."""
        for length in (3, 2, 1):
            phrase = " ".join(self.words[self.at : self.at + length])
            if phrase in table:
                self.at += length
                return table[phrase]
        return None

    def name_of(self, names: Iterable[str]) -> str | None:
        """The longest of these names that is next."""
        return self.one_of({name: name for name in names})

    def read(self, reader: Callable[[list[str], int], Read | None]) -> int | None:
        found = reader(self.words, self.at)
        if found is None:
            return None
        self.at = found[1]
        return found[0]

    def number(self) -> m.Number | None:
        value = self.read(read_cardinal)
        return None if value is None else m.Number(value)

    def year(self) -> m.Year | None:
        value = self.read(read_year)
        return None if value is None else m.Year(value)

    def date(self) -> m.Date | None:
        if not self.take("the") or (day := self.read(read_ordinal)) is None or not self.take("of"):
            return None
        month = self.name_of(lexicon.MONTHS)
        return m.Date(day, month, self.read(read_year)) if month else None

    def clock(self) -> m.Clock | None:
        minute: int | None
        if self.take("half"):
            minute = 30
        elif self.take("quarter"):
            minute = 15
        else:
            minute = self.read(read_cardinal)
            if minute is not None and self.take("o'clock"):
                return m.Clock(minute, 0, self.name_of(lexicon.PARTS_OF_DAY))
            _ = self.take("minutes") or self.take("minute")
        past = self.one_of({"past": True, "to": False})
        hour = self.read(read_cardinal)
        if minute is None or past is None or hour is None:
            return None
        if not past:
            hour, minute = (hour - 2) % 12 + 1, 60 - minute
        return m.Clock(hour, minute, self.name_of(lexicon.PARTS_OF_DAY))

    def price(self) -> m.Price | None:
        count = self.read(read_cardinal)
        if count is None:
            return None
        if self.take("cents") or self.take("cent"):
            return m.Price("euro", 0, count)
        currency = self.one_of(_CURRENCY_FORMS)
        if currency is None:
            return None
        joined = self.take("and")
        cents = self.read(read_cardinal) or 0
        _ = joined and (self.take("cents") or self.take("cent"))
        return m.Price(currency, count, cents)

    def things(self) -> m.Counted | m.The | m.Measured | None:
        return self.attempt(self.measured) or self.attempt(self.counted) or self.attempt(self.the)

    def measured(self) -> m.Measured | None:
        count, measure = self.read(read_cardinal), self.one_of(_MEASURE_FORMS)
        if count is None or measure is None or not self.take("of"):
            return None
        stuff = self.name_of(lexicon.STUFFS)
        return m.Measured(count, measure, stuff) if stuff else None

    def counted(self) -> m.Counted | None:
        definite, count = self.take("the"), self.read(read_cardinal)
        adjective, noun = self.name_of(lexicon.ADJECTIVES), self.one_of(_NOUN_FORMS)
        return None if count is None or noun is None else m.Counted(count, noun, adjective, definite)

    def the(self) -> m.The | None:
        if not self.take("the"):
            return None
        ordinal, adjective, noun = self.read(read_ordinal), self.name_of(lexicon.ADJECTIVES), self.one_of(_NOUN_FORMS)
        return m.The(noun, ordinal, adjective) if noun else None

    def subject(self) -> m.NounPhrase | None:
        return self.one_of(_SOMEONE) or self.things()

    def stretch(self) -> m.Span | None:
        count, unit = self.read(read_cardinal), self.one_of(_UNIT_FORMS)
        return None if count is None or unit is None else m.Span(count, unit)

    def object(self) -> m.Object | None:
        pronoun = self.one_of(_OBJECT_PRONOUNS)
        if pronoun:
            return m.Pronoun(pronoun)
        return self.attempt(self.age) or self.attempt(self.price) or self.subject()

    def age(self) -> m.Age | None:
        stretch = self.stretch()
        return m.Age(stretch.count) if stretch and self.take("old") else None

    def when(self) -> m.When | None:
        day = self.attempt(self.day)
        clock = self.attempt(lambda: self.clock() if self.take("at") else None)
        return m.When(day, clock) if day or clock else None

    def day(self) -> m.Day | None:
        relative = self.one_of({word: m.RelativeDay(word) for word in lexicon.RELATIVE_DAYS})
        if relative:
            return relative
        if self.take("every"):
            name = self.name_of((*lexicon.WEEKDAYS, "day"))
            return m.Weekday(name, every=True) if name else None
        if self.take("on"):
            name = self.name_of(lexicon.WEEKDAYS)
            return m.Weekday(name) if name else self.date()
        ahead = self.take("in")
        stretch = self.attempt(self.stretch)
        if stretch and (ahead or self.take("ago")):
            return m.Distance(stretch.count, stretch.unit, ago=not ahead)
        return self.year() if ahead else None

    def where(self) -> m.Where | None:
        phrase = self.name_of((*lexicon.PLACES, *lexicon.DESTINATIONS))
        if phrase:
            return m.Place(phrase)
        opening = self.name_of(lexicon.NUMBERED_PLACES)
        if opening:
            number = self.read(read_cardinal)
            return None if number is None else m.Numbered(opening, number)
        ordinal = self.read(read_ordinal) if self.take("on the") else None
        return m.Floor(ordinal) if ordinal and self.take("floor") else None

    def companion(self) -> m.Name | m.Counted | None:
        if not self.take("with"):
            return None
        return self.one_of({name: m.Name(name) for name in lexicon.NAMES}) or self.counted()

    def rest(self, subject: m.NounPhrase, verb: str, tense: m.Tense, first: m.When | None = None) -> m.Clause:
        """Everything after the verb; a destination comes before the company, any other place after it."""
        thing, going = self.attempt(self.object), self.attempt(self.where)
        companion = self.attempt(self.companion)
        where = going or self.attempt(self.where)
        lasting = self.attempt(lambda: self.stretch() if self.take("for") else None)
        when = first or self.attempt(self.when)
        return m.Clause(subject, verb, tense, thing or lasting, companion, where, when, fronted=first is not None)

    def clause(self) -> m.Clause | None:
        first = self.attempt(self.when)
        subject = self.attempt(self.subject)
        if subject is None:
            return None
        modal = self.one_of(_MODALS)
        form = self.one_of(_VERB_FORMS)
        return self.rest(subject, form[0], modal or form[1], first) if form else None

    def statement(self) -> m.Statement | None:
        clause = self.clause()
        return m.Statement(clause) if clause else None

    def question(self) -> m.Question | None:
        helper = self.one_of({**_TENSES, **_MODALS})
        be = None if helper else self.one_of({**dict.fromkeys(("am", "is", "are"), "be"), "was": "was", "were": "was"})
        subject = self.attempt(self.subject)
        if subject is None:
            return None
        if be:
            born = be == "was" and self.take("born")
            return m.Question(self.rest(subject, "be born" if born else "be", "past" if born else "present"))
        form = self.one_of(_VERB_FORMS)
        return m.Question(self.rest(subject, form[0], helper)) if form and helper else None

    def complex_sentence(self) -> m.Reported | m.Because | None:
        subject = self.one_of(_SOMEONE)
        if subject is None:
            return None
        verb = self.one_of(_REPORTING_FORMS)
        if verb:
            clause = self.clause() if self.take("that") else None
            return m.Reported(subject, verb, clause) if clause else None
        _ = self.take("am") or self.take("is") or self.take("are")
        state = self.name_of(lexicon.STATES)
        clause = self.clause() if state and self.take("because") else None
        return m.Because(subject, state, clause) if state and clause else None

    def it_is(self) -> m.ItIs | None:
        clock = self.clock() if self.take("it is") else None
        return m.ItIs(clock) if clock else None

    def day_is(self) -> m.DayIs | None:
        day = self.name_of(lexicon.RELATIVE_DAYS)
        date = self.date() if day and self.take("is") else None
        return m.DayIs(day, date) if day and date else None

    def there_are(self) -> m.ThereAre | None:
        what = self.counted() if self.take("there are") or self.take("there is") else None
        city = self.name_of(lexicon.CITIES) if what and self.take("in") else None
        return m.ThereAre(what, city) if what and city else None


_Rules = tuple[Callable[[Reader], m.Meaning | None], ...]
_FRAGMENTS: _Rules = (
    *(Reader.number, Reader.year, Reader.date, Reader.clock),
    *(Reader.price, Reader.things, Reader.when),
)
_QUESTIONS: _Rules = (Reader.question,)
_SENTENCES: _Rules = (Reader.it_is, Reader.day_is, Reader.there_are, Reader.complex_sentence, Reader.statement)


def parse(line: str) -> m.Meaning:
    """The meaning of an English line of the grammar; raise DataError for any other line."""
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
