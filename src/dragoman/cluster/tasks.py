"""What a worker does with the rows of a block: translate them, or score them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol

from dragoman.cluster.rows import Columns, Texts, Values
from dragoman.search.constraints.terms import Terms

Work = Callable[[Texts, int], list[Values]]  # the texts of rows, and the number of rows before them


class RowTask(Protocol):
    """A kind of work on rows; it travels to the workers, which load its engine once."""

    @property
    def columns(self) -> Columns:
        """The names and types of the values of a row."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """What decides the values besides the model, for the check when a run is resumed."""

    def load(self) -> Work:
        """Load the engine; return the function that finds the values of rows."""


@dataclass(frozen=True)
class ModelSource:
    """A model and how it is loaded: the arguments of `Translator.load`."""

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)


def render_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as text, the same for equal values in any process."""
    terms = {name: (sorted(v.targets.items()), v.ignore_case) for name, v in options.items() if isinstance(v, Terms)}
    return {name: repr(value) for name, value in sorted({**options, **terms}.items())}


@dataclass(frozen=True)
class TranslationTask:
    """Translate the text of each row, with the options of `Translator.stream`."""

    source: ModelSource
    options: Mapping[str, Any] = field(default_factory=dict)
    output_field: str = "translation"
    scores: bool = False
    alignments: bool = False

    @property
    def columns(self) -> Columns:
        """The translation, and its score and word alignment if requested."""
        found: dict[str, type] = {self.output_field: str}
        found |= {"score": float} if self.scores else {}
        return found | ({"alignment": list} if self.alignments else {})

    @property
    def settings(self) -> Mapping[str, Any]:
        """The options, by name."""
        return {"task": "translate", "columns": list(self.columns)} | render_options(self.options)

    def load(self) -> Work:
        """Load the translator and its engine."""
        from dragoman.translation.translator import Translator

        translator = Translator.load(self.source.model, **self.source.options)

        def translate(texts: Texts, before: int) -> list[Values]:
            found: list[Values] = []
            for one in translator.stream([text for (text,) in texts], alignment=self.alignments, **self.options):
                values = (one.text, *((one.score,) if self.scores else ()))
                values += ([list(link) for link in one.alignment or ()],) if self.alignments else ()
                found.append(dict(zip(self.columns, values, strict=True)))
            return found

        return translate


@dataclass(frozen=True)
class ScoringTask:
    """Score the pair of each row: `measure` is log_probability, per_token or score."""

    source: ModelSource
    options: Mapping[str, Any] = field(default_factory=dict)
    output_field: str = "score"
    measure: str = "log_probability"

    @property
    def columns(self) -> Columns:
        """The score."""
        return {self.output_field: float}

    @property
    def settings(self) -> Mapping[str, Any]:
        """The options, by name."""
        own = {"task": "score", "columns": list(self.columns), "measure": self.measure}
        return own | render_options(self.options)

    def load(self) -> Work:
        """Load the model."""
        from dragoman.translation.translator import Translator

        translator = Translator.load(self.source.model, **self.source.options)
        measure = attrgetter(self.measure)

        def score(texts: Texts, before: int) -> list[Values]:
            pairs = [(source, target) for source, target in texts]
            scored = translator.stream_scores(pairs, before=before, **self.options)
            return [{self.output_field: measure(one)} for one in scored]

        return score
