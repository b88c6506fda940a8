"""The hand-made lexicon: each English word with the one German word it stands for, and what German grammar asks of it.

Every entry is chosen so that the translation is a function: no two senses of an English word, and no noun whose
singular changes with its case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Gender = Literal["m", "f", "n"]
_GENDERS: dict[str, Gender] = {"m": "m", "f": "f", "n": "n"}


@dataclass(frozen=True)
class Noun:
    """A noun with its plurals; `kind` says in which sentences it makes sense."""

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


def _nouns(kind: str, rows: str) -> dict[str, Noun]:
    nouns = {}
    for row in rows.strip().splitlines():
        english, english_plural, gender, german, german_plural = row.split()
        nouns[english] = Noun(english, english_plural, german, german_plural, _GENDERS[gender], kind)
    return nouns


def _table(english: str, german: str) -> dict[str, str]:
    return dict(zip(english.split(), german.split(), strict=True))


NOUNS = {
    **_nouns(
        "food",
        """
        apple apples m Apfel Äpfel
        pear pears f Birne Birnen
        egg eggs n Ei Eier
        roll rolls n Brötchen Brötchen
        cake cakes m Kuchen Kuchen
        """,
    ),
    **_nouns(
        "thing",
        """
        book books n Buch Bücher
        lamp lamps f Lampe Lampen
        chair chairs m Stuhl Stühle
        car cars n Auto Autos
        picture pictures n Bild Bilder
        bag bags f Tasche Taschen
        coat coats m Mantel Mäntel
        """,
    ),
    **_nouns(
        "building",
        """
        house houses n Haus Häuser
        church churches f Kirche Kirchen
        bridge bridges f Brücke Brücken
        museum museums n Museum Museen
        tower towers m Turm Türme
        """,
    ),
    **_nouns(
        "people",
        """
        friend friends m Freund Freunde
        child children n Kind Kinder
        woman women f Frau Frauen
        guest guests m Gast Gäste
        brother brothers m Bruder Brüder
        """,
    ),
    **_nouns(
        "vehicle",
        """
        train trains m Zug Züge
        bus buses m Bus Busse
        tram trams f Straßenbahn Straßenbahnen
        """,
    ),
    **_nouns(
        "event",
        """
        film films m Film Filme
        concert concerts n Konzert Konzerte
        course courses m Kurs Kurse
        celebration celebrations f Feier Feiern
        """,
    ),
}

# A unit of measure before a substance: "two bottles of water" is "zwei Flaschen Wasser", with no "of".
MEASURES = {
    **_nouns(
        "measure",
        """
        bottle bottles f Flasche Flaschen
        cup cups f Tasse Tassen
        litre litres m Liter Liter
        kilo kilos n Kilo Kilo
        """,
    ),
}
STUFFS = {
    "water": "Wasser",
    "milk": "Milch",
    "wine": "Wein",
    "coffee": "Kaffee",
    "tea": "Tee",
    "cheese": "Käse",
    "rice": "Reis",
    "potatoes": "Kartoffeln",
}
MEASURED_BY = {
    "bottle": ("water", "milk", "wine"),
    "cup": ("coffee", "tea"),
    "litre": ("water", "milk", "wine"),
    "kilo": ("cheese", "rice", "potatoes"),
}
UNITS = {
    **_nouns(
        "unit",
        """
        minute minutes f Minute Minuten
        hour hours f Stunde Stunden
        day days m Tag Tage
        week weeks f Woche Wochen
        month months m Monat Monate
        year years n Jahr Jahre
        """,
    ),
}
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
NUMBERED_PLACES = {  # English opening: German opening
    "in room": "in Zimmer",
    "on platform": "auf Gleis",
    "from platform": "von Gleis",
}
