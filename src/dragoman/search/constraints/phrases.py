"""What a translation must contain and what it must not, as texts; no engine and no tensor in sight.

A phrase stands in a text where it begins and ends at the edge of a word: "York" is in "New York" and in "(York)", and
not in "Yorkshire". Scripts that write no spaces have an edge after every character, and so does Korean, whose particles
stand right after the noun.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from dragoman.errors import DragomanError, SearchError
from dragoman.text import normalize
from dragoman.text.words import SPACELESS
from dragoman.values import describe_value

LINE_END: Final = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
HANGUL: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]")
MOST_CHARACTERS: Final = 1000  # characters of a phrase


@lru_cache(maxsize=1 << 16)
def joins(character: str) -> bool:
    """Whether a character makes one word with another such beside it."""
    if unicodedata.category(character)[0] not in "LMN":
        return False
    return SPACELESS.match(character) is None and HANGUL.match(character) is None


def edge(text: str, place: int) -> bool:
    """Whether a word may begin or end before the character at this place."""
    return not (0 < place < len(text) and joins(text[place - 1]) and joins(text[place]))


def places(text: str, phrase: str) -> Iterator[int]:
    """Where the phrase begins in the text, whole words only; both are normalized."""
    start = text.find(phrase)
    while start >= 0:
        if edge(text, start) and edge(text, start + len(phrase)):
            yield start
        start = text.find(phrase, start + 1)


def count(text: str, alternatives: Sequence[str]) -> int:
    """How often one or another of these phrases stands in the text, at places that do not overlap."""
    found = sorted((start + len(phrase), start) for phrase in alternatives for start in places(text, phrase))
    number, reached = 0, 0
    for end, start in found:
        if start >= reached:
            number, reached = number + 1, end
    return number


@dataclass(frozen=True)
class Need:
    """One of some phrases, so many times: `asked` as it was asked for, `times` with those inside other demands."""

    phrases: tuple[str, ...]
    asked: int
    times: int

    @property
    def name(self) -> str:
        """As a person reads it."""
        return " | ".join(self.phrases)


@dataclass(frozen=True, order=True)
class Demands:
    """What a translation must contain, and what it must not.

    Each of `require` is demanded once, and twice where it comes twice; it is a tuple of phrases of which one will do.
    Phrases of which one holds the other, as "New York" and "York", need a place each. Nothing of `avoid` is written.
    """

    require: tuple[tuple[str, ...], ...] = ()
    avoid: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.require or self.avoid)

    @classmethod
    def of(cls, require: Any = (), avoid: Any = ()) -> Demands:
        """From lists of phrases; a list among the required is a choice of which one will do."""
        needs = [
            tuple(dict.fromkeys(phrase_of("require", one) for one in listed("require", need)))
            for need in listed("require", require)
        ]
        if () in needs:
            raise SearchError("a choice among what is required is empty; leave it out, or name a phrase that will do")
        unwanted = dict.fromkeys(phrase_of("avoid", one) for one in listed("avoid", avoid))
        return cls(tuple(needs), tuple(unwanted)).checked()

    def checked(self) -> Demands:
        """The same without alternatives that hold what is avoided; refused where a demand has no other."""
        if not (self.require and self.avoid):
            return self
        needs = []
        for need in self.require:
            free = tuple(phrase for phrase in need if not any(count(phrase, (word,)) for word in self.avoid))
            if not free:
                word = next(word for word in self.avoid if count(need[0], (word,)))
                raise SearchError(
                    f"{need[0]!r} is required, but {word!r} is to be avoided, so that no translation can be right; "
                    "leave one of them out"
                )
            needs.append(free)
        return Demands(tuple(needs), self.avoid)

    def with_more(self, other: Demands) -> Demands:
        """Both."""
        if not other:
            return self
        if not self:
            return other
        avoid = tuple(dict.fromkeys(self.avoid + other.avoid))
        return Demands(self.require + other.require, avoid).checked()

    def needs(self) -> list[Need]:
        """The different demands, with how often each must be met."""
        asked = Counter(self.require)
        return [
            Need(phrases, n, n + sum(m * inside(phrases, other) for other, m in asked.items() if other != phrases))
            for phrases, n in asked.items()
        ]

    def told(self, text: str) -> tuple[list[str], list[str]]:
        """The demands that a text meets, and those that it does not."""
        met, unmet, plain = [], [], normalize(text)
        for need in self.needs():
            missing = min(need.asked, max(0, need.times - count(plain, need.phrases)))
            met += [need.name] * (need.asked - missing)
            unmet += [need.name] * missing
        return met, unmet


def inside(phrases: Sequence[str], other: Sequence[str]) -> int:
    """How often, at least, one of the phrases stands in whichever of the others is chosen."""
    return min(count(one, phrases) for one in other)


def listed(name: str, value: Any) -> list[Any]:
    """Phrases as a list: one phrase is a list of one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | Set | Mapping):
        return list(value)
    raise SearchError(f"{name} must be a phrase, or a list of phrases; got {describe_value(value)}")


def phrase_of(name: str, value: Any) -> str:
    """One phrase as tokenizers see it, refused where it is none."""
    if not isinstance(value, str):
        raise SearchError(f"a phrase to {name} must be a str; got {describe_value(value)}")
    if LINE_END.search(value.strip()):
        raise SearchError(f"a phrase to {name} must be of one line; got {value!r:.60}")
    try:
        phrase = normalize(value)
    except DragomanError as error:
        raise SearchError(f"a phrase to {name} cannot be written: {error}") from None
    if not phrase:
        raise SearchError(f"a phrase to {name} is empty: {value!r:.60}; leave it out, or give its words")
    if len(phrase) > MOST_CHARACTERS:
        raise SearchError(
            f"a phrase to {name} has {len(phrase):,} characters, and at most {MOST_CHARACTERS:,} are taken: "
            f"{phrase!r:.60}"
        )
    return phrase
