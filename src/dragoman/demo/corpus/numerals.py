"""Number words for 0 .. 999,999: English read and written, German written only.

English follows British usage ("one hundred and five"); German writes a number as one word with the unit before the ten
("einhundertfünf", "fünfundzwanzig"). The readers take the longest number that starts at a word and return where it
ends, so the sentence parser needs no look-ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

LARGEST = 999_999


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ENGLISH = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_ENGLISH_TENS = ("", "", *_words("twenty thirty forty fifty sixty seventy eighty ninety"))
_ENGLISH_ORDINALS = {"one": "first", "two": "second", "three": "third", "five": "fifth", "eight": "eighth"}
_ENGLISH_ORDINALS |= {"nine": "ninth", "twelve": "twelfth"}
_GERMAN = _words(
    "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn "
    "achtzehn neunzehn"
)
_GERMAN_TENS = ("", "", *_words("zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"))
_GERMAN_ORDINAL_STEMS = {1: "erst", 3: "dritt", 7: "siebt", 8: "acht"}


def english_cardinal(n: int) -> str:
    """105 -> "one hundred and five"."""
    if n < 20:
        return _ENGLISH[n]
    if n < 100:
        ten, unit = divmod(n, 10)
        return _ENGLISH_TENS[ten] + (f"-{_ENGLISH[unit]}" if unit else "")
    if n < 1000:
        hundred, rest = divmod(n, 100)
        return f"{_ENGLISH[hundred]} hundred" + (f" and {english_cardinal(rest)}" if rest else "")
    thousand, rest = divmod(n, 1000)
    joint = " and " if 0 < rest < 100 else " "
    return f"{english_cardinal(thousand)} thousand" + (f"{joint}{english_cardinal(rest)}" if rest else "")


def english_ordinal(n: int) -> str:
    """23 -> "twenty-third": only the last word of the number changes."""
    cardinal = english_cardinal(n)
    cut = max(cardinal.rfind(" "), cardinal.rfind("-")) + 1
    head, last = cardinal[:cut], cardinal[cut:]
    if last.endswith("ty"):
        return f"{head}{last[:-1]}ieth"
    return head + _ENGLISH_ORDINALS.get(last, f"{last}th")


def english_year(year: int) -> str:
    """1984 -> "nineteen eighty-four"; the years 2000 to 2009 are read as numbers."""
    century, rest = divmod(year, 100)
    if century == 20 and rest < 10:
        return english_cardinal(year)
    if rest == 0:
        return f"{english_cardinal(century)} hundred"
    return f"{english_cardinal(century)} {'oh ' if rest < 10 else ''}{english_cardinal(rest)}"


def german_cardinal(n: int) -> str:
    """25 -> "fünfundzwanzig"."""
    if n < 20:
        return _GERMAN[n]
    if n < 100:
        ten, unit = divmod(n, 10)
        return (f"{_joined(unit)}und" if unit else "") + _GERMAN_TENS[ten]
    size, name = (100, "hundert") if n < 1000 else (1000, "tausend")
    head, rest = divmod(n, size)
    return _joined(head) + name + (german_cardinal(rest) if rest else "")


def _joined(n: int) -> str:
    """A number inside a longer word: "eins" loses its s."""
    word = german_cardinal(n)
    return word[:-1] if word.endswith("eins") else word


def german_ordinal_stem(n: int) -> str:
    """3 -> "dritt", to which the adjective's ending is added: der dritte, am dritten."""
    rest = n % 100
    if rest in _GERMAN_ORDINAL_STEMS:
        return (german_cardinal(n - rest) if n > rest else "") + _GERMAN_ORDINAL_STEMS[rest]
    return german_cardinal(n) + ("t" if 0 < rest < 20 else "st")


def german_year(year: int) -> str:
    """1984 -> "neunzehnhundertvierundachtzig"; from 2000 on a year is read as a number."""
    if year >= 2000:
        return german_cardinal(year)
    century, rest = divmod(year, 100)
    return f"{german_cardinal(century)}hundert" + (german_cardinal(rest) if rest else "")


Read = tuple[int, int]
_CARDINALS = {english_cardinal(n): n for n in range(1000)}
_AFTER_THOUSAND = {english_cardinal(1000 + n).removeprefix("one thousand "): n for n in range(1, 1000)}
_ORDINALS = {english_ordinal(n): n for n in range(1, 1000)}
_YEARS = {english_year(year): year for year in range(1500, 2100) if not 2000 <= year < 2010}


def _longest(table: dict[str, int], words: Sequence[str], at: int) -> Read | None:
    """The longest entry of the table at `words[at]`, of at most four words, as (value, end)."""
    phrases = ((" ".join(words[at:end]), end) for end in range(min(at + 4, len(words)), at, -1))
    return next(((table[phrase], end) for phrase, end in phrases if phrase in table), None)


def read_cardinal(words: Sequence[str], at: int) -> Read | None:
    """The longest number at `words[at]`, as (value, end); None if no number starts there."""
    head = _longest(_CARDINALS, words, at)
    if head is None or head[0] == 0 or [*words[head[1] : head[1] + 1]] != ["thousand"]:
        return head
    thousands, at = head[0] * 1000, head[1] + 1
    tail = _longest(_AFTER_THOUSAND, words, at)
    return (thousands + tail[0], tail[1]) if tail else (thousands, at)


def read_ordinal(words: Sequence[str], at: int) -> Read | None:
    """The ordinal below 1000 at `words[at]`, as (value, end)."""
    return _longest(_ORDINALS, words, at)


def read_year(words: Sequence[str], at: int) -> Read | None:
    """The year from 1500 to 2099 at `words[at]`, as (year, end)."""
    number = read_cardinal(words, at)  # the years 2000 to 2009 are read as numbers
    return number if number and 2000 <= number[0] < 2010 else _longest(_YEARS, words, at)
