"""Sentence pairs with other names and numbers, for models that must copy what they have never seen.

Few names of a text are in the speeches and sentences that the shipped models learn from: a small model spells a new one
anew, or translates it. Here, names, acronyms and numbers that are the same in both sentences of a pair are replaced in
both: by names that a model of letters draws, by other acronyms and product names, and by other numbers.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

WORD: Final = re.compile(r"[^\W_]+(?:[-.'’][^\W_]+)*")
CONTEXT: Final = 3  # letters by which the next one is drawn
SHORTEST, LONGEST = 3, 14  # letters of a drawn name
ATTEMPTS: Final = 100  # to draw one that the corpus does not have
NOT_NAMES: Final = frozenset({"April", "August", "September", "November", "Internet", "Euro"})  # the same in German
# A name after one of these is rather a noun that both languages have.
ARTICLES: Final = frozenset(
    re.findall(r"\w+", "der die das den dem des ein eine einen einem einer eines im am zum zur ins vom beim the a an")
)
STARTS_SENTENCE: Final = re.compile(r"(?:^|[.!?:;–—-]\s|[\"“„»(\[])\s*$")
CONSONANTS, LETTERS = "BCDFGHJKLMNPQRSTVWXZ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class NameModel:
    """Draws names letter by letter, each by the three letters before it, as in the names of a corpus."""

    def __init__(self, names: Iterable[str], words: Iterable[str]) -> None:
        self.words = {word.casefold() for word in words}
        self.next = defaultdict[str, Counter[str]](Counter)
        for name in names:
            marked = "^" * CONTEXT + name.lower() + "$"
            for i in range(CONTEXT, len(marked)):
                self.next[marked[i - CONTEXT : i]][marked[i]] += 1

    def draw(self, generator: random.Random) -> str:
        """A name that the corpus does not have; letters by chance if there are hardly any."""
        for _ in range(ATTEMPTS if self.next else 0):
            drawn = "^" * CONTEXT
            while drawn[-1] != "$" and len(drawn) <= LONGEST + CONTEXT:
                letters = self.next[drawn[-CONTEXT:]]
                drawn += generator.choices([*letters], [*letters.values()])[0]
            name = drawn.strip("^$")
            if drawn[-1] == "$" and len(name) >= SHORTEST and name not in self.words:
                return name[0].upper() + name[1:]
        return "".join(generator.choices(LETTERS, k=LONGEST // 2)).capitalize()


def shared_words(pair: Sequence[str]) -> list[str]:
    """The names, acronyms and numbers that both sentences of a pair have, once each."""
    sides = [Counter(WORD.findall(side)) for side in pair]
    found = []
    for word, count in sides[0].items():
        named = word[0].isupper() and len(word) > 1 and word not in NOT_NAMES
        if count == sides[1][word] == 1 and (named or any(map(str.isdigit, word))):
            before = [side[: next(one.start() for one in WORD.finditer(side) if one[0] == word)] for side in pair]
            if word[0].isdigit() or not any(map(starts_or_article, before)):
                found.append(word)
    return found


def starts_or_article(before: str) -> bool:
    """Whether a word is capitalized because a sentence starts with it, or follows an article."""
    last = before.split()[-1:]
    return STARTS_SENTENCE.search(before) is not None or {word.lower() for word in last} <= ARTICLES


def replace_words(text: str, others: Mapping[str, str]) -> str:
    """A text with other words in the places of some."""
    return WORD.sub(lambda word: others.get(word[0], word[0]), text)


def other_word(word: str, model: NameModel, generator: random.Random) -> str:
    """Another word of the same kind."""
    if word.isdigit():
        if len(word) == 4 and word[:2] in ("19", "20"):
            return str(generator.randrange(1900, 2050))
        return str(generator.randrange(10 ** (len(word) - 1), 10 ** len(word)))
    if any(map(str.isdigit, word)):
        return "".join(str(generator.randrange(10)) if one.isdigit() else one for one in word)
    if word.isupper() and len(word) <= 5:
        letters = "".join(generator.choices(generator.choice((CONSONANTS, LETTERS)), k=generator.randrange(2, 6)))
        return letters + generator.choice(("", "", "", f"{generator.randrange(100)}", f"-{generator.randrange(1000)}"))
    name, kind = model.draw(generator), generator.random()
    if kind < 0.8:
        return name
    if kind < 0.9:
        return name[:6] + model.draw(generator)[:6]  # such as LibreTranslate
    if kind < 0.95:
        return f"{name}{generator.choice(('', '-', ' '))}{generator.randrange(1, 2000)}"
    return name.lower() + str(generator.randrange(2, 100))  # such as bfloat16


def other_words(words: Iterable[str], model: NameModel, generator: random.Random) -> dict[str, str]:
    """Another word of the same kind for each word."""
    return {word: other_word(word, model, generator) for word in words}


def vary_pairs(pairs: Iterable[tuple[str, str]], model: NameModel, seed: int) -> Iterator[tuple[str, str]]:
    """The pairs with names or numbers that both sides have, with others in their places."""
    generator = random.Random(seed)
    for pair in pairs:
        if words := shared_words(pair):
            others = other_words(words, model, generator)
            yield replace_words(pair[0], others), replace_words(pair[1], others)


def name_model(pairs: Iterable[tuple[str, str]]) -> NameModel:
    """A model of the names of a corpus: capitalized words that both sides have."""
    names, words = set[str](), set[str]()
    for pair in pairs:
        words.update(word for side in pair for word in WORD.findall(side))
        names.update(word for word in shared_words(pair) if word.isalpha() and not word.isupper())
    return NameModel(sorted(names), words)
