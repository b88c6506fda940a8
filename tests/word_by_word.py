"""A translator without a model: one word at a time, in another order, with its true alignment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any

from dragoman.documents.source_vocabulary import WORD_CHARACTER
from dragoman.documents.transfer.capitals import is_in_capitals
from dragoman.search.constraints.terms import Terms
from dragoman.text.sentences import simple_boundaries
from dragoman.translation.result import Translation


class WordByWord:
    """Translates each word with a function, and writes the words in a given order.

    `order` gets the words of a sentence and returns their positions in the translation. `lost` are words that it leaves
    out unless they are required, `unreadable` the characters that it does not know.
    """

    def __init__(
        self,
        word: Callable[[str], str] = str.upper,
        order: Callable[[Sequence[str]], Sequence[int]] = lambda words: range(len(words)),
        lost: frozenset[str] = frozenset(),
        can_require: bool = True,
        unreadable: str = "",
    ) -> None:
        self.word, self.order, self.lost, self.can_require = word, order, lost, can_require
        self.calls: list[list[str]] = []
        self.unreadable = frozenset(unreadable)
        self.threads, self.interrupted = 0, False

    def interrupt(self) -> None:
        self.interrupted = True

    def split(self, line: str) -> list[str]:
        ends = [*simple_boundaries(line, "en"), len(line)]
        return [line[a:b].strip() for a, b in zip([0, *ends], ends, strict=False) if line[a:b].strip()]

    @property
    def vocabulary(self) -> WordByWord:
        return self

    def unknown(self, text: str) -> Set[str]:
        return self.unreadable.intersection(text)

    def has_words(self, text: str) -> bool:
        return WORD_CHARACTER.search(text) is not None

    def prefers_lower_case(self, text: str) -> bool:
        return is_in_capitals(text)

    def stream(self, texts: Sequence[str], alignment: bool) -> Iterator[Translation]:
        self.calls.append(list(texts))
        return (self.translation(text, self.lost, alignment) for text in texts)

    def stream_requiring(
        self, texts: Sequence[str], words: Sequence[str], alignment: bool
    ) -> Iterator[Translation] | None:
        if not self.can_require:
            return None
        return (self.translation(text, self.lost - set(words), alignment) for text in texts)

    def translation(self, text: str, lost: frozenset[str], alignment: bool) -> Translation:
        words = text.split()
        kept = [i for i in self.order(words) if words[i].strip(".,:;!?()") not in lost]
        written = [self.word(words[i]) for i in kept]
        return Translation(
            " ".join(written),
            tokens=tuple("▁" + word for word in written),
            source_tokens=tuple("▁" + word for word in words),
            alignment=tuple((i, t) for t, i in enumerate(kept)) if alignment else None,
        )


def backward(words: Sequence[str]) -> Sequence[int]:
    """The order of words from last to first."""
    return range(len(words) - 1, -1, -1)


class Aligned:
    """A translator for a server: words backward, with their alignment; it loses some unless they are required."""

    def __init__(self, lost: Iterable[str] = ()) -> None:
        self.lost, self.calls = frozenset(lost), list[dict[str, Any]]()

    def stream(self, texts: Iterable[str], **settings: Any) -> Iterator[Translation]:
        self.calls.append(settings)
        terms = settings.get("terms", ())
        lost = self.lost - {source for source, _ in (terms.targets.items() if isinstance(terms, Terms) else terms)}
        for text in texts:
            yield WordByWord(order=backward).translation(text, lost, settings.get("alignment", False))
