"""Number words: English both ways, German written only, for 0 .. 999,999.

English follows the British habit ("one hundred and five"), German writes a number as one word with the unit before the
ten ("einhundertfünf", "fünfundzwanzig"). The readers take the longest number that starts at a word and say where it
ended, so that the parser of sentences needs no look-ahead of its own.
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
_ENGLISH_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
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
    """A number inside a longer word: "eins" gives up its s."""
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


_CARDINALS = {english_cardinal(n): n for n in range(100)}
_ORDINALS = {english_ordinal(n): n for n in range(1, 100)}
Read = tuple[int, int]


def _word(words: Sequence[str], at: int) -> str:
    return words[at] if at < len(words) else ""


def _read_hundreds(words: Sequence[str], at: int) -> Read | None:
    value = _CARDINALS.get(_word(words, at))
    if value is None:
        return None
    if not (0 < value < 10 and _word(words, at + 1) == "hundred"):
        return value, at + 1
    rest = _CARDINALS.get(_word(words, at + 3), 0) if _word(words, at + 2) == "and" else 0
    return value * 100 + rest, at + (4 if rest else 2)


def read_cardinal(words: Sequence[str], at: int) -> Read | None:
    """The longest number at `words[at]`, as (value, where it ended); None where no number starts."""
    head = _read_hundreds(words, at)
    if head is None or head[0] == 0 or _word(words, head[1]) != "thousand":
        return head
    value, at = head[0] * 1000, head[1] + 1
    if _word(words, at) == "and":
        rest = _CARDINALS.get(_word(words, at + 1), 0)
        return (value + rest, at + 2) if rest else (value, at)
    tail = _read_hundreds(words, at)
    return (value + tail[0], tail[1]) if tail and tail[0] >= 100 else (value, at)


def read_ordinal(words: Sequence[str], at: int) -> Read | None:
    """The ordinal below 1000 at `words[at]`, as (value, where it ended)."""
    if _word(words, at) in _ORDINALS:
        return _ORDINALS[words[at]], at + 1
    hundreds = _CARDINALS.get(_word(words, at), 0)
    if not 0 < hundreds < 10:
        return None
    if _word(words, at + 1) == "hundredth":
        return hundreds * 100, at + 2
    if _word(words, at + 1) == "hundred" and _word(words, at + 2) == "and" and _word(words, at + 3) in _ORDINALS:
        return hundreds * 100 + _ORDINALS[words[at + 3]], at + 4
    return None


def read_year(words: Sequence[str], at: int) -> Read | None:
    """The year from 1500 to 2099 at `words[at]`, as (year, where it ended)."""
    century, following = _CARDINALS.get(_word(words, at), 0), _word(words, at + 1)
    if 15 <= century <= 20 and _CARDINALS.get(following, 0) >= 10:
        return century * 100 + _CARDINALS[following], at + 2
    if 15 <= century <= 19 and following == "hundred":
        return century * 100, at + 2
    if 15 <= century <= 19 and following == "oh" and 0 < _CARDINALS.get(_word(words, at + 2), 0) < 10:
        return century * 100 + _CARDINALS[words[at + 2]], at + 3
    number = read_cardinal(words, at)
    return number if number and 2000 <= number[0] < 2010 else None
