"""Plural forms of gettext: how many a language has, and which one goes with a number."""

from __future__ import annotations

import gettext
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

MAX_FORMS: Final = 20
HEADER: Final = re.compile(r"nplurals\s*=\s*(\d{1,2})\s*;\s*plural\s*=\s*([^;]{1,1000})")
SLAVIC: Final = "n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2"
RULES: Final = {  # as msginit writes them; languages that are not here have one form for n == 1 and one for the others
    "nplurals=1; plural=0;": "id ja ka km ko lo ms my th vi zh yue",
    "nplurals=2; plural=(n > 1);": "ak am br fa fil fr hi hy kab ln mg oc pa pt-br ti tr uz wa",
    f"nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : {SLAVIC});": "be bs hr ru sr uk",
    f"nplurals=3; plural=(n==1 ? 0 : {SLAVIC});": "pl csb szl",
    "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;": "cs sk",
    "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);": "sl hsb dsb",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);": "lt",
    "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);": "lv",
    "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);": "ro mo",
    "nplurals=5; plural=(n==1 ? 0 : n==2 ? 1 : n<7 ? 2 : n<11 ? 3 : 4);": "ga",
    "nplurals=4; plural=(n==1 || n==11 ? 0 : n==2 || n==12 ? 1 : n>2 && n<20 ? 2 : 3);": "gd",
    "nplurals=4; plural=(n==1 ? 0 : n==2 ? 1 : n==8 || n==11 ? 3 : 2);": "cy",
    "nplurals=4; plural=(n==1 ? 0 : n==0 || (n%100>1 && n%100<11) ? 1 : n%100>10 && n%100<20 ? 2 : 3);": "mt",
    "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);": "ar",
    "nplurals=2; plural=(n%10!=1 || n%100==11);": "is",
    "nplurals=2; plural=(n==1 || n%10==1 ? 0 : 1);": "mk",
}
COMMON: Final = (10, 20, 30, 5, 6, 25, 50, 2, 3, 100)
DEFAULT_RULE: Final = "nplurals=2; plural=(n != 1);"


@dataclass(frozen=True)
class PluralForms:
    """The plural forms of a language: their number, and the form of each number."""

    rule: str
    count: int
    form: Callable[[int], int]

    def numbers(self, form: int) -> tuple[int, ...]:
        """Numbers that go with a form; first those that even small models copy."""
        return tuple(dict.fromkeys(n for n in (*COMMON, *range(200)) if self.form(n) == form))[:8]

    def is_only_one(self, form: int) -> bool:
        """Whether a form is for the number 1 alone (and perhaps 0)."""
        return self.form(1) == form and all(self.form(n) != form for n in range(2, 200))


def parse_rule(header: str) -> PluralForms | None:
    """The forms of a value of the field Plural-Forms; None if it has no valid rule."""
    found = HEADER.search(header)
    if found is None or not 1 <= (count := int(found[1])) <= MAX_FORMS:
        return None
    try:
        form = gettext.c2py(found[2].strip())
        if not all(0 <= form(n) < count for n in range(200)):
            return None
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    return PluralForms(header, count, form)


def language_rule(language: str) -> PluralForms | None:
    """The forms of a language by its code; None if the code is empty."""
    code = language.replace("_", "-").lower().split("@")[0]
    if not code:
        return None
    for name in (code, code.split("-")[0]):
        for rule, languages in RULES.items():
            if name in languages.split():
                return parse_rule(rule)
    return parse_rule(DEFAULT_RULE)
