"""What a model can read: which characters its vocabulary lacks, and which text is better read in lower case."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Final, Protocol

from dragoman.documents.transfer.capitals import is_in_capitals, without_capitals

if TYPE_CHECKING:
    from dragoman.search.constraints.terms import Terms
    from dragoman.text.tokenizer import Tokenizer

WORD_CHARACTER: Final = re.compile(r"[^\W_]")


class SourceVocabulary(Protocol):
    """What documents must know about a vocabulary; tests have one without a model."""

    def unknown(self, text: str) -> Set[str]:
        """The characters of a text that the model cannot read."""

    def has_words(self, text: str) -> bool:
        """Whether a text has letters, digits or a term."""

    def prefers_lower_case(self, text: str) -> bool:
        """Whether a text is in capitals, and the model reads it better in lower case."""


class TokenizerVocabulary:
    """The vocabulary of a tokenizer. Terms are translated, even if the model cannot read them."""

    def __init__(self, tokenizer: Tokenizer, terms: Sequence[Terms]) -> None:
        self.tokenizer, self.terms = tokenizer, terms

    def unknown(self, text: str) -> Set[str]:
        """The characters of a text that the tokenizer has no token for, except those of the text's terms."""
        found: Set[str] = self.tokenizer.unknown_characters(text)
        for terms in self.terms if found else ():
            found = found - characters_of_terms(text, terms)
        return found

    def has_words(self, text: str) -> bool:
        """Whether a text has letters, digits or a term."""
        return WORD_CHARACTER.search(text) is not None or any(terms.phrases_in(text) for terms in self.terms)

    def prefers_lower_case(self, text: str) -> bool:
        """Whether a text is in capitals and has fewer tokens in lower case; not if a term would not be found in it."""
        if not is_in_capitals(text):
            return False
        lower = without_capitals(text)
        if len(self.tokenizer.encode(lower)) >= len(self.tokenizer.encode(text)):
            return False
        return all(len(terms.phrases_in(lower)) >= len(terms.phrases_in(text)) for terms in self.terms)


def characters_of_terms(text: str, terms: Terms) -> Set[str]:
    """The characters of the terms that are in a text, as the text may write them."""
    phrases = "".join(terms.phrases_in(text))
    return {*phrases + phrases.upper() + phrases.title()} if terms.ignore_case else {*phrases}
