"""What happened to each segment of a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import Any, Final, Literal

from dragoman.documents.memory.lookup import Match
from dragoman.documents.segment import Segment, Target
from dragoman.translation.result import DEGENERATE

Problem = Literal["placeholder_lost", "markup_lost", "empty"]
PROBLEMS: dict[Problem, str] = {
    "placeholder_lost": "the model did not copy every placeholder",
    "markup_lost": "the markup could not be nested as in the source",
    "empty": "the model returned no text",
}
NUMBERS_DIFFER: Final = "numbers_differ"  # a flag

MAX_RESULTS: Final = 1000  # of a large document that are kept
LOW_CONFIDENCE: Final = 0.3  # translations below it need review


@dataclass(frozen=True)
class WordLinks:
    """The places of words, or of parts of words, in a segment and in its translation, and the links between them."""

    source: Sequence[tuple[int, int]]
    target: Sequence[tuple[int, int]]
    links: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class SegmentResult:
    """A segment and its translation.

    `target` is None if the original was kept: there was nothing to translate, or there was a `problem` with one of its
    sentences. If other sentences of it were translated, `target` has the source of those with a problem. `flags` are
    those of its sentences (`Translation.flags`), and `numbers_differ` if its numbers are not those of the source;
    `unaligned` are the names of tags whose words have no aligned translation.
    `matches` are those of its sentences in a translation memory; if all are exact, the target is `approved`. `words`
    are aligned words, if the translation was aligned.
    """

    segment: Segment
    target: Target | None = None
    problem: Problem | None = None
    confidence: float | None = None
    flags: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    unaligned: tuple[str, ...] = ()
    retried: bool = False
    matches: tuple[Match, ...] = ()
    words: WordLinks | None = None

    @property
    def degenerate(self) -> bool:
        """Whether a flag marks text that is probably wrong; it also lowers the confidence."""
        return not {*DEGENERATE, "empty"}.isdisjoint(self.flags)

    @property
    def low_confidence(self) -> bool:
        """Whether the model is unsure of a sentence that no flag marks."""
        return self.confidence is not None and self.confidence < LOW_CONFIDENCE and not self.degenerate

    @property
    def needs_review(self) -> bool:
        """Whether a person should look at it; counts, reports, pages and bilingual files all ask here."""
        return bool(
            self.problem
            or self.unmet
            or self.unaligned
            or self.degenerate
            or self.low_confidence
            or NUMBERS_DIFFER in self.flags
        )


@dataclass
class Counts:
    """How many segments there are, how many were translated, and how many need review, also by their problem."""

    segments: int = 0
    translated: int = 0
    from_memory: int = 0
    to_review: int = 0
    problems: Counter[Problem] = field(default_factory=Counter)

    def add(self, results: Iterable[SegmentResult]) -> None:
        """Count more segments."""
        for one in results:
            self.segments += 1
            self.translated += one.target is not None
            self.from_memory += one.target is not None and one.target.approved
            self.to_review += one.needs_review
            if one.problem is not None:
                self.problems[one.problem] += 1


@dataclass(frozen=True)
class Report:
    """The results of the segments of a document, in order.

    Of a large document, which was translated in chunks, `results` has only the first segments that need review;
    `numbers` says which segments they are, and `counts` counts all.
    """

    results: Sequence[SegmentResult]
    numbers: Sequence[int] | None = None
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        if self.numbers is None and not self.counts.segments:
            self.counts.add(self.results)

    @property
    def translated(self) -> int:
        """The number of translated segments."""
        return self.counts.translated

    @property
    def from_memory(self) -> int:
        """The number of segments that were taken from a translation memory."""
        return self.counts.from_memory

    @property
    def needs_review(self) -> bool:
        """Whether a person should look at a segment."""
        return self.counts.to_review > 0

    @property
    def kept(self) -> list[SegmentResult]:
        """Segments with source text that should have been translated."""
        return [one for one in self.results if one.problem is not None]

    def summary(self) -> str:
        """One line: how many segments were translated, and what needs review."""
        counts = self.counts
        parts = [f"{counts.translated:,} of {counts.segments:,} segments translated"]
        if counts.from_memory:
            parts.append(f"{counts.from_memory:,} of them from the memory")
        left = counts.problems
        parts += [f"{n:,} with text left in the source language ({PROBLEMS[problem]})" for problem, n in left.items()]
        if others := counts.to_review - left.total():
            parts.append(f"{others:,} {'more ' if left else ''}to review")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object, with an entry for each segment that needs review."""
        return {
            "segments": self.counts.segments,
            "translated": self.translated,
            "from_memory": self.from_memory,
            "review": [
                {
                    "segment": number,
                    "key": one.segment.key,
                    "source": one.segment.text,
                    "target": None if one.target is None else one.target.text,
                    "problem": one.problem,
                    "confidence": one.confidence,
                    "flags": list(one.flags),
                    "unmet": list(one.unmet),
                    "unaligned": list(one.unaligned),
                    "matches": [asdict(match) for match in one.matches],
                }
                for number, one in zip(self.numbers or count(1), self.results, strict=False)
                if one.needs_review
            ],
        }


class ReportBuilder:
    """Builds the report of a large document, without keeping every result."""

    def __init__(self) -> None:
        self.results: list[SegmentResult] = []
        self.numbers: list[int] = []
        self.counts = Counts()

    def add(self, results: Sequence[SegmentResult]) -> None:
        """Add the results of the next segments."""
        for number, one in enumerate(results, self.counts.segments + 1):
            if one.needs_review and len(self.results) < MAX_RESULTS:
                self.results.append(one)
                self.numbers.append(number)
        self.counts.add(results)

    def build(self) -> Report:
        """The report."""
        return Report(self.results, self.numbers, self.counts)
