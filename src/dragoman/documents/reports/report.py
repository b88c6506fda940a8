"""What happened to each segment of a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from dragoman.documents.memory.lookup import Match
from dragoman.documents.segment import Segment, Target
from dragoman.translation.result import DEGENERATE

Problem = Literal["placeholder_lost", "markup_lost", "empty"]
PROBLEMS: dict[Problem, str] = {
    "placeholder_lost": "the model did not copy every placeholder",
    "markup_lost": "the markup could not be nested as in the source",
    "empty": "the model returned no text",
}


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
    those of its sentences (`Translation.flags`), `unaligned` the names of tags whose words have no aligned translation.
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
    def needs_review(self) -> bool:
        """Whether a person should look at it."""
        return bool(self.problem or self.unmet or self.unaligned or set(self.flags) & {*DEGENERATE, "empty"})


@dataclass(frozen=True)
class Report:
    """The results of all segments of a document, in order."""

    results: Sequence[SegmentResult]

    @property
    def translated(self) -> int:
        """The number of translated segments."""
        return sum(one.target is not None for one in self.results)

    @property
    def from_memory(self) -> int:
        """The number of segments that were taken from a translation memory."""
        return sum(one.target is not None and one.target.approved for one in self.results)

    @property
    def kept(self) -> list[SegmentResult]:
        """Segments with source text that should have been translated."""
        return [one for one in self.results if one.problem is not None]

    def summary(self) -> str:
        """One line: how many segments were translated, and what needs review."""
        counts = Counter(problem for one in self.results if (problem := one.problem) is not None)
        parts = [f"{self.translated:,} of {len(self.results):,} segments translated"]
        if self.from_memory:
            parts.append(f"{self.from_memory:,} of them from the memory")
        parts += [f"{count:,} left in the source language ({PROBLEMS[problem]})" for problem, count in counts.items()]
        if others := sum(one.needs_review and one.problem is None for one in self.results):
            parts.append(f"{others:,} more to review")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object, with an entry for each segment that needs review."""
        return {
            "segments": len(self.results),
            "translated": self.translated,
            "from_memory": self.from_memory,
            "review": [
                {
                    "segment": number,
                    "key": one.segment.key,
                    "source": one.segment.text,
                    "target": None if one.target is None else one.target.text,
                    "problem": one.problem,
                    "flags": list(one.flags),
                    "unmet": list(one.unmet),
                    "unaligned": list(one.unaligned),
                    "matches": [asdict(match) for match in one.matches],
                }
                for number, one in enumerate(self.results, 1)
                if one.needs_review
            ],
        }
