"""Drop bad translations of the teacher, and report how many each rule dropped, with examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from dragoman.distillation.translations import TeacherLine
from dragoman.text.tokenizer import pause_gc

EXAMPLES: Final = 3
RULES: Final = {
    "empty": "there is no translation",
    "length": "the translation is far too short or too long for its source",
    "repetition": "the translation repeats itself",
    "copy": "the translation is a copy of its source",
    "reference": "sentence BLEU against the reference is below the limit",
    "score": "its mean log-probability of a token is among the lowest of translations of similar length",
}
LENGTH_FLAGS: Final = {"too_short", "too_long", "truncated"}
MAX_RATIO: Final = 3.0  # of characters
RATIO_SLACK: Final = 15  # characters by which short texts may differ


@dataclass(frozen=True)
class SelectionRules:
    """`score_share` of the lines, those with the lowest scores, are dropped; `min_bleu` needs references."""

    score_share: float = 0.02
    min_bleu: float = 0.0


@dataclass
class SelectionReport:
    """Lines read and kept, and for each rule how many it dropped, with examples."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    examples: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: {rule: [] for rule in RULES})

    def drop(self, rule: str, line: TeacherLine) -> None:
        """Count a line that a rule dropped."""
        self.dropped[rule] += 1
        if len(self.examples[rule]) < EXAMPLES:
            self.examples[rule].append((line.source, line.target))

    def summary(self) -> str:
        """The report in one line."""
        counts = ", ".join(f"{count:,} {rule}" for rule, count in self.dropped.items() if count)
        return f"{self.read:,} translations, {self.kept:,} kept; dropped: {counts or 'none'}"

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        rules = {
            rule: {"why": why, "dropped": self.dropped[rule], "examples": self.examples[rule]}
            for rule, why in RULES.items()
        }
        return {"read": self.read, "kept": self.kept, "rules": rules}


def failed_rule(line: TeacherLine, rules: SelectionRules) -> str | None:
    """The first rule that a line breaks, except the one that compares scores."""
    flags = line.flags
    if not line.target.strip() or "empty" in flags or "no_letters" in flags:
        return "empty"
    if "repetitive" in flags:
        return "repetition"
    shorter, longer = sorted((len(line.source), len(line.target)))
    if not LENGTH_FLAGS.isdisjoint(flags) or longer > MAX_RATIO * shorter + RATIO_SLACK:
        return "length"
    if "copied" in flags:
        return "copy"
    if line.bleu is not None and line.bleu < rules.min_bleu:
        return "reference"
    return None


def length_class(line: TeacherLine) -> int:
    """Lines of similar length, within a factor of two: a word alone has a lower score than a sentence."""
    return len(line.source).bit_length()


def score_limits(lines: Iterable[TeacherLine], share: float) -> dict[int, float]:
    """For each length class, the score below which a share of its lines lies."""
    scores: dict[int, list[float]] = {}
    for line in lines:
        scores.setdefault(length_class(line), []).append(line.per_token)
    return {length: sorted(found)[int(share * len(found))] for length, found in scores.items()}


def select_lines(lines: Iterable[TeacherLine], rules: SelectionRules, report: SelectionReport) -> Iterator[TeacherLine]:
    """Yield the lines to keep; all are read first, because the last rule compares the scores of lines."""
    with pause_gc():
        read = [(line, failed_rule(line, rules)) for line in lines]
    limits = score_limits((line for line, rule in read if rule is None), rules.score_share)
    for line, failed in read:
        report.read += 1
        rule = failed or ("score" if line.per_token < limits[length_class(line)] else None)
        if rule is not None:
            report.drop(rule, line)
        else:
            report.kept += 1
            yield line
