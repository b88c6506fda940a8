"""The verbs of the lexicon. No English past looks like its present, so the tense can be read from the line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Verb:
    """A verb: English forms, German forms of the present (ich, er, wir), participle and auxiliary.

    `prefix` is the part of a separable verb that moves to the end of a main clause. `subjects`, `objects` and `places`
    name the kinds that make sense; `stative` verbs take no modal ("must need" is not English); a verb without a past
    has only the present.
    """

    english: str
    third: str
    past: str
    german: str
    participle: str
    auxiliary: Literal["haben", "sein", "wurde"] = "haben"
    prefix: str = ""
    subjects: str = "person"
    objects: str = ""
    places: str = ""
    stative: bool = False

    @property
    def present(self) -> tuple[str, str, str]:
        """The finite forms for ich, er and wir, without the prefix."""
        first, third, plural = self.german.split()
        return first, third, plural

    @property
    def infinitive(self) -> str:
        """The infinitive with its prefix; it equals the form of wir."""
        return self.prefix + self.present[2]


_VERBS = (
    Verb("buy", "buys", "bought", "kaufe kauft kaufen", "gekauft", objects="food thing measure", places="at"),
    Verb("sell", "sells", "sold", "verkaufe verkauft verkaufen", "verkauft", objects="thing building", places="at"),
    Verb("order", "orders", "ordered", "bestelle bestellt bestellen", "bestellt", objects="food thing measure"),
    Verb(
        "need", "needs", "needed", "brauche braucht brauchen", "gebraucht", objects="food thing measure", stative=True
    ),
    Verb("find", "finds", "found", "finde findet finden", "gefunden", objects="food thing", places="at"),
    Verb("see", "sees", "saw", "sehe sieht sehen", "gesehen", objects="thing building people vehicle", places="at"),
    Verb("eat", "eats", "ate", "esse isst essen", "gegessen", objects="food", places="at"),
    Verb("drink", "drinks", "drank", "trinke trinkt trinken", "getrunken", objects="drink", places="at"),
    Verb("bring", "brings", "brought", "bringe bringt bringen", "mitgebracht", prefix="mit", objects="food thing"),
    Verb("pick up", "picks up", "picked up", "hole holt holen", "abgeholt", prefix="ab", objects="people", places="at"),
    Verb("invite", "invites", "invited", "lade lädt laden", "eingeladen", prefix="ein", objects="people someone"),
    Verb("visit", "visits", "visited", "besuche besucht besuchen", "besucht", objects="building people someone"),
    Verb("call", "calls", "called", "rufe ruft rufen", "angerufen", prefix="an", objects="people someone"),
    Verb("get up", "gets up", "got up", "stehe steht stehen", "aufgestanden", "sein", "auf"),
    Verb("wake up", "wakes up", "woke up", "wache wacht wachen", "aufgewacht", "sein", "auf"),
    Verb("fall asleep", "falls asleep", "fell asleep", "schlafe schläft schlafen", "eingeschlafen", "sein", "ein"),
    Verb("come back", "comes back", "came back", "komme kommt kommen", "zurückgekommen", "sein", "zurück"),
    Verb(
        *("arrive", "arrives", "arrived", "komme kommt kommen", "angekommen", "sein", "an"),
        subjects="person people vehicle",
        places="at platform",
    ),
    Verb(
        *("depart", "departs", "departed", "fahre fährt fahren", "abgefahren", "sein", "ab"),
        subjects="vehicle",
        places="from",
    ),
    Verb("start", "starts", "started", "fange fängt fangen", "angefangen", "haben", "an", subjects="event"),
    Verb("end", "ends", "ended", "ende endet enden", "geendet", subjects="event"),
    Verb("drive", "drives", "drove", "fahre fährt fahren", "gefahren", "sein", places="to"),
    Verb("fly", "flies", "flew", "fliege fliegt fliegen", "geflogen", "sein", places="to_city"),
    Verb("go", "goes", "went", "gehe geht gehen", "gegangen", "sein", places="to_spot"),
    Verb("work", "works", "worked", "arbeite arbeitet arbeiten", "gearbeitet", objects="span", places="at floor room"),
    Verb("sleep", "sleeps", "slept", "schlafe schläft schlafen", "geschlafen", objects="span", places="at room"),
    Verb("wait", "waits", "waited", "warte wartet warten", "gewartet", objects="span", places="at room platform"),
    Verb(
        "live", "lives", "lived", "wohne wohnt wohnen", "gewohnt", objects="span", places="in_city floor", stative=True
    ),
    Verb("cost", "costs", "", "koste kostet kosten", "gekostet", subjects="food thing", objects="price", stative=True),
    Verb("be", "is", "", "bin ist sind", "gewesen", "sein", objects="age", stative=True),
    Verb("be born", "", "was born", "", "geboren", "wurde", places="in_city", stative=True),
)
_REPORTING = (
    Verb("know", "knows", "knew", "weiß weiß wissen", "gewusst"),
    Verb("say", "says", "said", "sage sagt sagen", "gesagt"),
    Verb("think", "thinks", "thought", "glaube glaubt glauben", "geglaubt"),
    Verb("hope", "hopes", "hoped", "hoffe hofft hoffen", "gehofft"),
    Verb("hear", "hears", "heard", "höre hört hören", "gehört"),
)
VERBS, REPORTING = ({verb.english: verb for verb in verbs} for verbs in (_VERBS, _REPORTING))
# ich, er, wir
AUXILIARIES = {"haben": ("habe", "hat", "haben"), "sein": ("bin", "ist", "sind"), "wurde": ("wurde", "wurde", "wurden")}
MODALS = {"will": ("werde", "wird", "werden"), "can": ("kann", "kann", "können"), "must": ("muss", "muss", "müssen")}
