"""Lexical constraints of one request: shared by all texts, given per text, or derived from terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.errors import SearchError
from dragoman.search.constraints.phrases import Constraints
from dragoman.search.constraints.terms import Terms
from dragoman.search.types import Search
from dragoman.values import describe_value, render_value


@dataclass(frozen=True)
class RequestConstraints:
    """Constraints shared by `all` texts, those of `each` text, and `terms` that apply where they occur in a source."""

    all: Constraints
    each: list[Constraints] | None = None
    terms: Terms | None = None

    @classmethod
    def parse(cls, require: Any, avoid: Any, terms: Any, constraints: Any) -> RequestConstraints | None:
        """The constraints of a call, or None."""
        if terms is not None and not isinstance(terms, Terms):
            terms = Terms(terms)
        each = None if constraints is None else parse_each(constraints)
        found = cls(Constraints.of(require, avoid), each, terms)
        return found if found.all or each is not None or terms else None

    @property
    def requires_phrases(self) -> bool:
        """Whether any text may have a required phrase, rather than avoided ones only."""
        return bool(self.all.require or self.terms or any(one.require for one in self.each or ()))

    def requires_in(self, index: int) -> bool:
        """Whether text number `index` has a required phrase for any of its sentences; terms belong to one sentence."""
        return bool(self.all.require or (self.each is not None and index < len(self.each) and self.each[index].require))

    def check(self, search: Search) -> None:
        """Raise if the search cannot place required phrases."""
        if search.sampling is not None and self.requires_phrases:
            raise SearchError(
                "required phrases cannot be combined with sampling; drop `sampling` or `require` (`avoid` is fine)",
                code="constraints_with_sampling",
            )

    def for_parts(self, index: int, parts: Sequence[str]) -> list[Constraints]:
        """The constraints of each part of text number `index`."""
        own = self.all if self.each is None else self.all.merge(self.each[index])
        if own.require and len(parts) > 1:
            raise SearchError(
                f"{own.require[0][0]!r} is required, but the text is translated in {len(parts)} parts, any of which "
                f"could contain it: {render_value(' '.join(parts))}; pass sentences one by one, or use terms",
                code="constraints_with_splitting",
            )
        if self.terms is None:
            return [own] * len(parts)
        return [own.merge(Constraints(tuple(self.terms.required_by(part)))) for part in parts]


def parse_each(constraints: Any) -> list[Constraints]:
    """One `Constraints` for each text; None stands for no constraints."""
    given_one = isinstance(constraints, Constraints | str | bytes | Mapping)
    if given_one or not isinstance(constraints, Iterable):
        message = f"constraints must be a list with one entry for each text; got {describe_value(constraints)}"
        raise SearchError(message, code="wrong_type")
    found = []
    for one in constraints:
        if not (one is None or isinstance(one, Constraints)):
            message = (
                f"constraints must be Constraints, such as Constraints.of(require=['cat']); got {describe_value(one)}"
            )
            raise SearchError(message, code="wrong_type")
        found.append(Constraints.of(one.require, one.avoid) if one else Constraints())  # may not come from `of`
    return found
