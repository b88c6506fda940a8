"""What a call asks of its translations: words that must be there and words that must not, for all texts or for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.engines.select import Engines
from dragoman.errors import DragomanError, SearchError
from dragoman.search.constraints.phrases import Demands
from dragoman.search.constraints.terms import Terms
from dragoman.search.types import Hypothesis, Search
from dragoman.translation.assembly import Ids
from dragoman.translation.batches import Job, groups
from dragoman.values import describe_value

if TYPE_CHECKING:
    from dragoman.engines.torch import TorchEngine
    from dragoman.search.constraints.tables import Planner


@dataclass(frozen=True)
class Wishes:
    """What the texts of a call demand: the same of all, of each its own, and what follows from their terms."""

    all: Demands
    each: Sequence[Demands] | None = None
    terms: Terms | None = None

    @classmethod
    def of(cls, require: Any, avoid: Any, terms: Any, demands: Any) -> Wishes | None:
        """What a call asks for; None where that is nothing."""
        if terms is not None and not isinstance(terms, Terms):
            terms = Terms(terms)
        each = None if demands is None else each_of(demands)
        wishes = cls(Demands.of(require, avoid), each, terms)
        return wishes if wishes.all or each is not None or terms else None

    @property
    def required(self) -> bool:
        """Whether anything may be demanded, and not only avoided."""
        return bool(self.all.require or self.terms or any(one.require for one in self.each or ()))

    def check(self, engines: Engines, search: Search, prefixed: bool, texts: object) -> None:
        """Refuse what cannot be asked for together, before the first text is read."""
        engines.check_demands(search, prefixed)
        if search.sampling is not None and self.required:
            raise SearchError(
                "words are required, but translations that are drawn by chance are not searched for them; leave "
                "sampling out, or what is required (what is avoided can stay)"
            )
        if self.each is not None and isinstance(texts, Sized) and len(texts) != len(self.each):
            raise SearchError(f"{len(self.each)} demands came for {len(texts)} texts; give one for each")

    def refuse_more(self, texts: int) -> None:
        """Refuse demands that are left over after so many texts."""
        if self.each is not None and len(self.each) > texts:
            raise SearchError(f"there are {len(self.each)} demands, but only {texts} texts; give one for each")

    def of_parts(self, number: int, parts: Sequence[str]) -> list[Demands]:
        """What each part of a text demands."""
        own = self.all if self.each is None else self.all.with_more(self.each[number])
        if own.require and len(parts) > 1:
            raise SearchError(
                f"{own.require[0][0]!r} is required of a text that is translated in {len(parts)} parts, and nothing "
                f"says which is to have it: {' '.join(parts)!r:.60}; give it sentence by sentence, or use terms"
            )
        if self.terms is None:
            return [own] * len(parts)
        return [own.with_more(Demands(tuple(self.terms.found(part)))) for part in parts]


def demanded(
    jobs: list[list[Job]], wishes: Wishes, first: int, text_of: Callable[[Ids], str], planner: Planner
) -> tuple[list[list[Job]], DragomanError | None]:
    """The jobs of texts from number `first` on with what is demanded of each, and what is wrong with the next if any.

    `text_of` is the text of a source's tokens.
    """
    found: list[list[Job]] = []
    for i, of_text in enumerate(jobs):
        try:
            if wishes.each is not None and first + i >= len(wishes.each):
                raise SearchError(f"there are more texts than the {len(wishes.each)} demands; give one for each")
            of_parts = wishes.of_parts(first + i, [text_of(ids) for ids, _, _ in of_text])
            for one in of_parts:
                if one:
                    planner.plan(one)  # refused here where this model cannot write it
        except DragomanError as error:
            return found, error
        found.append([(ids, prefix, one) for (ids, prefix, _), one in zip(of_text, of_parts, strict=True)])
    return found, None


def searched(
    engine: TorchEngine, jobs: Sequence[Job], search: Search, batch: int, prefixed: bool, planner: Planner
) -> dict[Job, list[Hypothesis]]:
    """The hypotheses for sentences of which something is demanded."""
    found: dict[Job, list[Hypothesis]] = {}
    for group in groups(jobs, batch):
        prefixes = [prefix for _, prefix, _ in group] if prefixed else None
        plans = [planner.plan(demands) for _, _, demands in group]
        hypotheses = engine.search([ids for ids, _, _ in group], search, prefixes, plans)
        found.update(zip(group, hypotheses, strict=True))
    return found


def each_of(demands: Any) -> list[Demands]:
    """One for each text; None demands nothing."""
    if isinstance(demands, Demands) or not isinstance(demands, Iterable) or isinstance(demands, str | bytes | Mapping):
        raise SearchError(f"demands must be a list with one for each text; got {describe_value(demands)}")
    found = []
    for one in demands:
        if not (one is None or isinstance(one, Demands)):
            raise SearchError(
                f"each of demands must be a Demands, as Demands.of(require=['cat']); got {describe_value(one)}"
            )
        found.append(Demands.of(one.require, one.avoid) if one else Demands())  # they may be made by hand
    return found
