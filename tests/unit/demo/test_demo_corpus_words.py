"""The words of the embedded corpus: numbers against other rules, nouns and verbs against a dictionary."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.demo.corpus import meaning as m
from dragoman.demo.corpus import translate
from dragoman.demo.corpus.english import english
from dragoman.demo.corpus.german import german
from dragoman.demo.corpus.lexicon import NOUNS
from dragoman.demo.corpus.numerals import (
    english_cardinal,
    english_ordinal,
    english_year,
    german_cardinal,
    german_ordinal_stem,
    german_year,
    read_cardinal,
    read_ordinal,
    read_year,
)
from dragoman.demo.corpus.parser import parse
from dragoman.demo.corpus.verbs import VERBS

GERMAN_WORDS = {
    **{"null": 0, "eins": 1, "ein": 1, "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6, "sieben": 7, "acht": 8},
    **{"neun": 9, "zehn": 10, "elf": 11, "zwölf": 12, "dreizehn": 13, "vierzehn": 14, "fünfzehn": 15, "sechzehn": 16},
    **{"siebzehn": 17, "achtzehn": 18, "neunzehn": 19, "zwanzig": 20, "dreißig": 30, "vierzig": 40, "fünfzig": 50},
    **{"sechzig": 60, "siebzig": 70, "achtzig": 80, "neunzig": 90},
}
ENGLISH_WORDS = {
    **{"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9},
    **{"ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16},
    **{"seventeen": 17, "eighteen": 18, "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50},
    **{"sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90},
}


def german_value(word: str) -> int:
    """A German number by cutting the word at its joints."""
    for joint, size in (("tausend", 1000), ("hundert", 100)):
        if joint in word:
            head, _, rest = word.partition(joint)
            return german_value(head) * size + (german_value(rest) if rest else 0)
    if word in GERMAN_WORDS:
        return GERMAN_WORDS[word]
    unit, _, ten = word.partition("und")
    return GERMAN_WORDS[unit] + GERMAN_WORDS[ten]


def english_value(phrase: str) -> int:
    """An English number by adding up its words."""
    total = current = 0
    for word in phrase.replace("-", " ").replace(" and ", " ").split():
        if word == "hundred":
            current *= 100
        elif word == "thousand":
            total, current = current * 1000, 0
        else:
            current += ENGLISH_WORDS[word]
    return total + current


def check_number(n: int) -> None:
    assert english_value(english_cardinal(n)) == n
    assert german_value(german_cardinal(n)) == n
    words = english_cardinal(n).split()
    assert read_cardinal([*words, "apples"], 0) == (n, len(words))


def test_every_number_to_ten_thousand_reads_back() -> None:
    for n in range(10_000):
        check_number(n)


@given(st.integers(0, 999_999))
@settings(max_examples=400, deadline=None)
def test_large_numbers_read_back(n: int) -> None:
    check_number(n)


@pytest.mark.parametrize(
    ("n", "in_english", "in_german"),
    [
        (0, "zero", "null"),
        (1, "one", "eins"),
        (16, "sixteen", "sechzehn"),
        (17, "seventeen", "siebzehn"),
        (21, "twenty-one", "einundzwanzig"),
        (25, "twenty-five", "fünfundzwanzig"),
        (30, "thirty", "dreißig"),
        (66, "sixty-six", "sechsundsechzig"),
        (77, "seventy-seven", "siebenundsiebzig"),
        (100, "one hundred", "einhundert"),
        (101, "one hundred and one", "einhunderteins"),
        (105, "one hundred and five", "einhundertfünf"),
        (1_000, "one thousand", "eintausend"),
        (1_001, "one thousand and one", "eintausendeins"),
        (1_100, "one thousand one hundred", "eintausendeinhundert"),
        (21_000, "twenty-one thousand", "einundzwanzigtausend"),
        (101_101, "one hundred and one thousand one hundred and one", "einhunderteintausendeinhunderteins"),
        (200_014, "two hundred thousand and fourteen", "zweihunderttausendvierzehn"),
        (
            999_999,
            "nine hundred and ninety-nine thousand nine hundred and ninety-nine",
            "neunhundertneunundneunzigtausendneunhundertneunundneunzig",
        ),
    ],
)
def test_numbers_known_by_heart(n: int, in_english: str, in_german: str) -> None:
    assert (english_cardinal(n), german_cardinal(n)) == (in_english, in_german)
    assert translate(in_english) == in_german


@pytest.mark.parametrize(
    ("n", "in_english", "stem"),
    [
        (1, "first", "erst"),
        (2, "second", "zweit"),
        (3, "third", "dritt"),
        (5, "fifth", "fünft"),
        (7, "seventh", "siebt"),
        (8, "eighth", "acht"),
        (9, "ninth", "neunt"),
        (12, "twelfth", "zwölft"),
        (17, "seventeenth", "siebzehnt"),
        (19, "nineteenth", "neunzehnt"),
        (20, "twentieth", "zwanzigst"),
        (21, "twenty-first", "einundzwanzigst"),
        (30, "thirtieth", "dreißigst"),
        (43, "forty-third", "dreiundvierzigst"),
        (100, "one hundredth", "einhundertst"),
        (101, "one hundred and first", "einhunderterst"),
        (112, "one hundred and twelfth", "einhundertzwölft"),
        (308, "three hundred and eighth", "dreihundertacht"),
        (999, "nine hundred and ninety-ninth", "neunhundertneunundneunzigst"),
    ],
)
def test_ordinals_known_by_heart(n: int, in_english: str, stem: str) -> None:
    assert (english_ordinal(n), german_ordinal_stem(n)) == (in_english, stem)


def test_every_ordinal_and_year_reads_back() -> None:
    for n in range(1, 1000):
        words = english_ordinal(n).split()
        assert read_ordinal([*words, "of"], 0) == (n, len(words))
    for year in range(1500, 2100):
        words = english_year(year).split()
        assert read_year([*words, "at"], 0) == (year, len(words))
        assert german_value(german_year(year)) == year


@pytest.mark.parametrize(
    ("year", "in_english", "in_german"),
    [
        (1500, "fifteen hundred", "fünfzehnhundert"),
        (1701, "seventeen oh one", "siebzehnhunderteins"),
        (1984, "nineteen eighty-four", "neunzehnhundertvierundachtzig"),
        (2000, "two thousand", "zweitausend"),
        (2009, "two thousand and nine", "zweitausendneun"),
        (2010, "twenty ten", "zweitausendzehn"),
        (2031, "twenty thirty-one", "zweitausendeinunddreißig"),
    ],
)
def test_years_known_by_heart(year: int, in_english: str, in_german: str) -> None:
    assert (english_year(year), german_year(year)) == (in_english, in_german)
    assert translate(in_english) == in_german


def test_every_clock_time() -> None:
    row = "zwölf eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf eins"
    hours = row.split()
    said = {
        **{5: "fünf nach {this}", 10: "zehn nach {this}", 15: "Viertel nach {this}", 20: "zwanzig nach {this}"},
        **{25: "fünf vor halb {next}", 30: "halb {next}", 35: "fünf nach halb {next}", 40: "zwanzig vor {next}"},
        **{45: "Viertel vor {next}", 50: "zehn vor {next}", 55: "fünf vor {next}"},
        **{1: "eine Minute nach {this}", 59: "eine Minute vor {next}", 28: "achtundzwanzig Minuten nach {this}"},
        **{31: "neunundzwanzig Minuten vor {next}", 48: "zwölf Minuten vor {next}"},
    }
    for hour in range(1, 13):
        oclock = "ein" if hour == 1 else hours[hour]
        assert german(m.Clock(hour, 0)) == f"{oclock} Uhr"
        for minute, phrase in said.items():
            assert german(m.Clock(hour, minute)) == phrase.format(this=hours[hour], next=hours[hour + 1])
        for minute in range(60):
            assert parse(english(m.Clock(hour, minute))) == m.Clock(hour, minute)


# Each noun as a dictionary lists it.
DICTIONARY = """
apple der Apfel Äpfel, pear die Birne Birnen, egg das Ei Eier, roll das Brötchen Brötchen, cake der Kuchen Kuchen,
book das Buch Bücher, lamp die Lampe Lampen, chair der Stuhl Stühle, car das Auto Autos, picture das Bild Bilder,
bag die Tasche Taschen, coat der Mantel Mäntel, house das Haus Häuser, church die Kirche Kirchen,
bridge die Brücke Brücken, museum das Museum Museen, tower der Turm Türme, friend der Freund Freunde,
child das Kind Kinder, woman die Frau Frauen, guest der Gast Gäste, brother der Bruder Brüder, train der Zug Züge,
bus der Bus Busse, tram die Straßenbahn Straßenbahnen, film der Film Filme, concert das Konzert Konzerte,
course der Kurs Kurse, celebration die Feier Feiern
"""


def test_nouns_as_in_the_dictionary() -> None:
    rows = [row.split() for row in DICTIONARY.replace("\n", " ").split(",")]
    assert {row[0] for row in rows} == set(NOUNS)
    for key, article, singular, plural in rows:
        assert german(m.The(key)) == f"{article} {singular}"
        assert german(m.Counted(2, key)) == f"zwei {plural}"
        one = {"der": "einen", "die": "eine", "das": "ein"}[article]
        assert german(m.ThereAre(m.Counted(1, key), "Berlin")) == f"In Berlin gibt es {one} {singular}."


@pytest.mark.parametrize(
    ("count", "noun", "phrase"),
    [
        (2, "friend", "mit zwei Freunden"),
        (2, "child", "mit zwei Kindern"),
        (2, "woman", "mit zwei Frauen"),
        (2, "guest", "mit zwei Gästen"),
        (2, "brother", "mit zwei Brüdern"),
        (1, "woman", "mit einer Frau"),
        (1, "child", "mit einem Kind"),
    ],
)
def test_the_dative_after_mit(count: int, noun: str, phrase: str) -> None:
    clause = m.Clause(m.Name("Anna"), "wait", "present", companion=m.Counted(count, noun))
    assert german(m.Statement(clause)) == f"Anna wartet {phrase}."


def test_the_dative_plural_adds_an_n_except_after_n_and_s() -> None:
    said = {key: NOUNS[key].german_dative_plural for key in ("car", "museum", "tower", "roll")}
    assert said == {"car": "Autos", "museum": "Museen", "tower": "Türmen", "roll": "Brötchen"}


# Present of he, perfect of he, infinitive.
CONJUGATION = """
buy kauft | hat gekauft | kaufen
sell verkauft | hat verkauft | verkaufen
order bestellt | hat bestellt | bestellen
need braucht | hat gebraucht | brauchen
find findet | hat gefunden | finden
see sieht | hat gesehen | sehen
eat isst | hat gegessen | essen
drink trinkt | hat getrunken | trinken
bring bringt mit | hat mitgebracht | mitbringen
pick_up holt ab | hat abgeholt | abholen
invite lädt ein | hat eingeladen | einladen
visit besucht | hat besucht | besuchen
call ruft an | hat angerufen | anrufen
get_up steht auf | ist aufgestanden | aufstehen
wake_up wacht auf | ist aufgewacht | aufwachen
fall_asleep schläft ein | ist eingeschlafen | einschlafen
come_back kommt zurück | ist zurückgekommen | zurückkommen
arrive kommt an | ist angekommen | ankommen
depart fährt ab | ist abgefahren | abfahren
start fängt an | hat angefangen | anfangen
end endet | hat geendet | enden
drive fährt | ist gefahren | fahren
fly fliegt | ist geflogen | fliegen
go geht | ist gegangen | gehen
work arbeitet | hat gearbeitet | arbeiten
sleep schläft | hat geschlafen | schlafen
wait wartet | hat gewartet | warten
live wohnt | hat gewohnt | wohnen
"""


def test_verbs_as_in_the_dictionary() -> None:
    rows = dict(row.split(" ", 1) for row in CONJUGATION.strip().splitlines())
    assert {row.replace("_", " ") for row in rows} == set(VERBS) - {"cost", "be", "be born"}
    for key, forms in rows.items():
        present, perfect, infinitive = forms.split(" | ")
        for tense, said in (("present", present), ("past", perfect), ("must", f"muss {infinitive}")):
            assert german(m.Statement(m.Clause(m.Pronoun("he"), key.replace("_", " "), tense))) == f"Er {said}."  # type: ignore[arg-type]


def test_the_form_of_ich_is_the_infinitive_without_its_n() -> None:
    for verb in VERBS.values():
        if verb.english not in ("be", "be born"):
            first, _, plural = verb.present
            assert first == plural[:-1]
