"""The lexicon: each English word with its only German translation, and its German grammar.

Entries are chosen so that the translation is a function: no English word with two senses, and no noun whose singular
changes with its case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
_GENDERS: dict[str, Gender] = {"m": "m", "f": "f", "n": "n"}


@dataclass(frozen=True)
class Noun:
    """A noun with its plurals; `kind` decides in which sentences it makes sense."""

    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: Gender
    kind: str

    @property
    def german_dative_plural(self) -> str:
        """The dative plural adds an n, except after n and s."""
        return self.german_plural + ("" if self.german_plural[-1] in "ns" else "n")


def _nouns(rows: str) -> dict[str, Noun]:
    """Nouns by their English singular, from rows of kind, English forms, gender and German forms."""
    nouns = {}
    for row in rows.strip().splitlines():
        kind, english, english_plural, gender, german, german_plural = row.split()
        nouns[english] = Noun(english, english_plural, german, german_plural, _GENDERS[gender], kind)
    return nouns


def _table(english: str, german: str) -> dict[str, str]:
    return dict(zip(english.split(), german.split(), strict=True))


NOUNS = _nouns("""
    food apple apples m Apfel Äpfel
    food pear pears f Birne Birnen
    food egg eggs n Ei Eier
    food roll rolls n Brötchen Brötchen
    food cake cakes m Kuchen Kuchen
    thing book books n Buch Bücher
    thing lamp lamps f Lampe Lampen
    thing chair chairs m Stuhl Stühle
    thing car cars n Auto Autos
    thing picture pictures n Bild Bilder
    thing bag bags f Tasche Taschen
    thing coat coats m Mantel Mäntel
    building house houses n Haus Häuser
    building church churches f Kirche Kirchen
    building bridge bridges f Brücke Brücken
    building museum museums n Museum Museen
    building tower towers m Turm Türme
    people friend friends m Freund Freunde
    people child children n Kind Kinder
    people woman women f Frau Frauen
    people guest guests m Gast Gäste
    people brother brothers m Bruder Brüder
    vehicle train trains m Zug Züge
    vehicle bus buses m Bus Busse
    vehicle tram trams f Straßenbahn Straßenbahnen
    event film films m Film Filme
    event concert concerts n Konzert Konzerte
    event course courses m Kurs Kurse
    event celebration celebrations f Feier Feiern
""")

# A unit of measure before a substance: "two bottles of water" is "zwei Flaschen Wasser", with no "of".
MEASURES = _nouns("""
    measure bottle bottles f Flasche Flaschen
    measure cup cups f Tasse Tassen
    measure litre litres m Liter Liter
    measure kilo kilos n Kilo Kilo
""")
STUFFS = _table("water milk wine coffee tea cheese rice potatoes", "Wasser Milch Wein Kaffee Tee Käse Reis Kartoffeln")
MEASURED_BY = {
    "bottle": ("water", "milk", "wine"),
    "cup": ("coffee", "tea"),
    "litre": ("water", "milk", "wine"),
    "kilo": ("cheese", "rice", "potatoes"),
}
UNITS = _nouns("""
    unit minute minutes f Minute Minuten
    unit hour hours f Stunde Stunden
    unit day days m Tag Tage
    unit week weeks f Woche Wochen
    unit month months m Monat Monate
    unit year years n Jahr Jahre
""")
CURRENCIES = {"euro": "Euro", "dollar": "Dollar"}

ADJECTIVES = {"red": "rot", "blue": "blau", "new": "neu", "old": "alt", "small": "klein", "big": "groß"}
ADJECTIVES_FOR = {"people": ("old", "new"), "event": ("new",), "building": ("new", "old", "small", "big")}
STATES = {"tired": "müde", "happy": "froh", "sad": "traurig", "hungry": "hungrig"}

NAMES = ("Anna", "Peter", "Maria", "Paul", "Clara", "Martin")
PRONOUNS = {  # English subject: English object, German nominative, German accusative
    "I": ("me", "ich", "mich"),
    "he": ("him", "er", "ihn"),
    "she": ("her", "sie", "sie"),
    "we": ("us", "wir", "uns"),
    "they": ("them", "sie", "sie"),
}

MONTHS = _table(
    "January February March April May June July August September October November December",
    "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
)
WEEKDAYS = _table(
    "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
)
RELATIVE_DAYS = {"yesterday": "gestern", "today": "heute", "tomorrow": "morgen"}
PARTS_OF_DAY = {
    "in the morning": ("morgens", range(5, 10)),
    "in the afternoon": ("nachmittags", range(1, 5)),
    "in the evening": ("abends", range(6, 11)),
}

CITIES = {"Berlin": "Berlin", "Vienna": "Wien", "Munich": "München", "Cologne": "Köln", "Hamburg": "Hamburg"}
PLACES = {
    **{f"in {english}": f"in {german}" for english, german in CITIES.items()},
    "at the station": "am Bahnhof",
    "in the office": "im Büro",
    "in the garden": "im Garten",
    "in the city": "in der Stadt",
    "at home": "zu Hause",
}
DESTINATIONS = {
    **{f"to {english}": f"nach {german}" for english, german in CITIES.items()},
    "to the station": "zum Bahnhof",
    "to the office": "ins Büro",
    "to the cinema": "ins Kino",
    "to school": "zur Schule",
    "home": "nach Hause",
}
NUMBERED_PLACES = {"in room": "in Zimmer", "on platform": "auf Gleis", "from platform": "von Gleis"}
