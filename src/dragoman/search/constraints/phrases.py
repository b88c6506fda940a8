"""Lexical constraints as text: phrases that a translation must contain, and phrases that it must not.

A phrase occurs in a text where it begins and ends at a word boundary: "York" is in "New York" and in "(York)", but not
in "Yorkshire". Scripts without spaces have a boundary after every character, and so does Korean, whose particles follow
the noun directly.
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
from dragoman.text.normalization import SPACELESS
from dragoman.values import describe_value, render_value

LINE_END: Final = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
HANGUL: Final = re.compile("[\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff]")
MAX_CHARACTERS: Final = 1000  # characters of a phrase


@lru_cache(maxsize=1 << 16)
def is_word_character(character: str) -> bool:
    """Whether a character forms one word with another such character next to it."""
    if unicodedata.category(character)[0] not in "LMN":
        return False
    return SPACELESS.match(character) is None and HANGUL.match(character) is None


def is_word_boundary(text: str, index: int) -> bool:
    """Whether a word may begin or end before the character at this index."""
    return not (0 < index < len(text) and is_word_character(text[index - 1]) and is_word_character(text[index]))


def occurrences(text: str, phrase: str) -> Iterator[int]:
    """Indices at which the phrase begins in the text, whole words only; both are normalized."""
    start = text.find(phrase)
    while start >= 0:
        if is_word_boundary(text, start) and is_word_boundary(text, start + len(phrase)):
            yield start
        start = text.find(phrase, start + 1)


def count_occurrences(text: str, alternatives: Sequence[str]) -> int:
    """Number of non-overlapping occurrences of any of these phrases in the text."""
    there = (phrase for phrase in alternatives if phrase in text)  # a quick test that nearly always fails
    found = sorted((start + len(phrase), start) for phrase in there for start in occurrences(text, phrase))
    number, reached = 0, 0
    for end, start in found:
        if start >= reached:
            number, reached = number + 1, end
    return number


@dataclass(frozen=True)
class RequiredPhrase:
    """A phrase, or a choice of several, with how often it is `requested`.

    `total` also counts its occurrences inside other required phrases, which do not satisfy it.
    """

    phrases: tuple[str, ...]
    requested: int
    total: int

    @property
    def name(self) -> str:
        """The name used in messages."""
        return " | ".join(self.phrases)


@dataclass(frozen=True, order=True)
class Constraints:
    """Phrases that a translation must contain (`require`) and must not contain (`avoid`).

    Each entry of `require` is a tuple of alternatives, one of which must occur; an entry given twice must occur twice.
    Where one phrase contains another, such as "New York" and "York", each needs its own occurrence.
    """

    require: tuple[tuple[str, ...], ...] = ()
    avoid: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.require or self.avoid)

    @classmethod
    def of(cls, require: Any = (), avoid: Any = ()) -> Constraints:
        """From lists of phrases; a list inside `require` is a choice of alternatives."""
        required = [
            tuple(dict.fromkeys(parse_phrase("require", one) for one in as_list("require", alternatives)))
            for alternatives in as_list("require", require)
        ]
        if () in required:
            message = "`require` has an empty list of alternatives; drop it, or add a phrase"
            raise SearchError(message, code="empty_phrase")
        avoided = dict.fromkeys(parse_phrase("avoid", one) for one in as_list("avoid", avoid))
        return cls(tuple(required), tuple(avoided)).resolve_conflicts()

    def resolve_conflicts(self) -> Constraints:
        """Drop alternatives that contain an avoided phrase; raise if none is left."""
        if not (self.require and self.avoid):
            return self
        required = []
        for alternatives in self.require:
            free = tuple(phrase for phrase in alternatives if not count_occurrences(phrase, self.avoid))
            if not free:
                word = next(word for word in self.avoid if count_occurrences(alternatives[0], (word,)))
                message = f"{alternatives[0]!r} is required, but contains {word!r}, which is avoided; drop one of them"
                raise SearchError(message, code="conflicting_constraints")
            required.append(free)
        return Constraints(tuple(required), self.avoid)

    def merge(self, other: Constraints) -> Constraints:
        """Combine the constraints of both."""
        if not other:
            return self
        if not self:
            return other
        avoid = tuple(dict.fromkeys(self.avoid + other.avoid))
        return Constraints(self.require + other.require, avoid).resolve_conflicts()

    def required_phrases(self) -> list[RequiredPhrase]:
        """The distinct required phrases, with how often each must occur."""
        requested = Counter(self.require)
        found = []
        for phrases, n in requested.items():
            inside = sum(m * min_occurrences(phrases, other) for other, m in requested.items() if other != phrases)
            found.append(RequiredPhrase(phrases, n, n + inside))
        return found

    def met_and_unmet(self, text: str) -> tuple[list[str], list[str]]:
        """Names of the required phrases that a text contains, and of those it lacks."""
        met, unmet, plain = [], [], normalize(text)
        for phrase in self.required_phrases():
            missing = min(phrase.requested, max(0, phrase.total - count_occurrences(plain, phrase.phrases)))
            met += [phrase.name] * (phrase.requested - missing)
            unmet += [phrase.name] * missing
        return met, unmet


def min_occurrences(phrases: Sequence[str], other: Sequence[str]) -> int:
    """The fewest occurrences of `phrases` in any one of the alternatives `other`."""
    return min(count_occurrences(one, phrases) for one in other)


def as_list(name: str, value: Any) -> list[Any]:
    """Phrases as a list; a single phrase becomes a list of one."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | Set | Mapping):
        return list(value)
    raise SearchError(f"{name} must be a phrase, or a list of phrases; got {describe_value(value)}", code="wrong_type")


def parse_phrase(name: str, value: Any) -> str:
    """One phrase, normalized as tokenizers see it."""
    if not isinstance(value, str):
        raise SearchError(f"a phrase to {name} must be a str; got {describe_value(value)}", code="wrong_type")
    if LINE_END.search(value.strip()):
        raise SearchError(f"a phrase to {name} must be a single line; got {render_value(value)}", code="not_one_line")
    try:
        phrase = normalize(value)
    except DragomanError as error:
        raise SearchError(f"a phrase to {name} is not valid text: {error}", code=error.code) from None
    if not phrase:
        raise SearchError(f"a phrase to {name} is empty: {render_value(value)}; drop it", code="empty_phrase")
    if len(phrase) > MAX_CHARACTERS:
        raise SearchError(
            f"a phrase to {name} has {len(phrase):,} characters; at most {MAX_CHARACTERS:,} are allowed: "
            f"{render_value(phrase)}",
            code="phrase_too_long",
        )
    return phrase
