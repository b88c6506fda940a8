"""`metrics.jsonl`, a line for each logged step and evaluation, truncated when a run resumes; and its plot.

The log and the result are for people: damage to them costs lines of the log, never a run or its model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dragoman.config import Recipe
from dragoman.errors import TrainingError
from dragoman.files import sync

METRICS_FILE: Final = "metrics.jsonl"
RESULT_FILE: Final = "result.json"


class MetricsLog:
    """The log of a run. Its length is counted in lines: bytes would depend on the clock."""

    def __init__(self, path: Path) -> None:
        self.path, self.lines = path, 0

    def append(self, entry: Mapping[str, Any]) -> None:
        """Write one whole line, or nothing."""
        line = (json.dumps(entry, ensure_ascii=False) + "\n").encode()
        try:
            with self.path.open("ab", buffering=0) as file:
                before = file.tell()
                try:
                    while line:  # an almost full disk accepts a part of the line, and the next write fails
                        line = line[file.write(line) :]
                except OSError:
                    with suppress(OSError):
                        file.truncate(before)
                    raise
        except OSError as error:
            raise TrainingError(
                f"cannot write {self.path}: {error.strerror or error}; earlier checkpoints are intact. Free "
                "some space and run the same command to resume",
                code="cannot_write",
            ) from None
        self.lines += 1

    def sync(self) -> None:
        """Flush to disk the lines that the next checkpoint counts."""
        if self.path.exists():
            sync(self.path)

    def truncate(self, lines: int) -> bool:
        """Drop what was written after a checkpoint: the run writes it again. False if lines are missing."""
        self.lines = length = 0
        if not self.path.exists():
            return lines == 0
        with self.path.open("rb") as file:
            while self.lines < lines and (line := file.readline()).endswith(b"\n"):
                self.lines += 1
                length += len(line)
        os.truncate(self.path, length)
        return self.lines == lines

    def read(self) -> Iterator[dict[str, Any]]:
        """The lines so far, without those that are damaged."""
        with suppress(OSError), self.path.open("rb") as file:
            for line in file:
                entry = parse_object(line)
                if is_entry(entry):
                    yield entry


def parse_object(content: bytes) -> dict[str, Any]:
    """The JSON object of a line or a file; empty if it is damaged."""
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def is_entry(entry: Mapping[str, Any]) -> bool:
    """Whether a line has all that the plot and `TrainingResult` read from it."""
    if not isinstance(entry.get("step"), int) or not 0 <= entry["step"] < 2**53:
        return False
    if "valid" in entry:
        return is_scores(entry["valid"]) and "loss" in entry["valid"]
    return is_scores({name: entry.get(name) for name in ("loss", "mse" if "mse" in entry else "nll")})


def is_scores(found: object) -> bool:
    """Whether it has a number for each name."""
    return isinstance(found, dict) and all(isinstance(value, int | float) for value in found.values())


def read_result(training: Path) -> dict[str, Any]:
    """The content of `result.json`; empty without one, or if it is damaged."""
    try:
        result = parse_object((training / RESULT_FILE).read_bytes())
    except OSError:
        return {}
    return result if is_scores(result.get("scores")) else {}


@dataclass(frozen=True)
class TrainingResult:
    """A trained model: its directory, its recipe, and how training went.

    `metrics` are the scores of the final weights on the validation set. `curve` has the entries of metrics.jsonl: those
    with "loss" are logged steps, those with "valid" are evaluations.
    """

    path: Path
    recipe: Recipe
    metrics: Mapping[str, float]
    curve: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, training: Path, recipe: Recipe) -> TrainingResult:
        """The result of a finished run, from the `training` directory of its model."""
        curve = tuple(MetricsLog(training / METRICS_FILE).read())
        scores = read_result(training).get("scores")
        if scores is None:  # a model without its training, or of an older version
            scores = next((entry["valid"] for entry in reversed(curve) if "valid" in entry), {})
        return cls(training.parent, recipe, scores, curve)


def draw_training_curves(
    entries: Sequence[Mapping[str, Any]],
    path: Path,
    figure_name: str = "nll",
    label: str = "cross-entropy per target token",
) -> bool:
    """Plot training and validation loss, and BLEU, against the step; False if matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = [e for e in entries if "valid" not in e]
    valid = [e for e in entries if "valid" in e]
    translated = [e for e in valid if "bleu" in e["valid"]]
    figure, axis = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axis.plot([e["step"] for e in steps], [e[figure_name] for e in steps], color="#9ecae1", label="training")
    axis.plot(
        [e["step"] for e in valid], [e["valid"]["loss"] for e in valid], "o-", color="#08519c", label="validation"
    )
    axis.set_xlabel("step")
    axis.set_ylabel(label)
    lines, labels = axis.get_legend_handles_labels()
    if translated:
        right = axis.twinx()
        bleu = [e["valid"]["bleu"] for e in translated]
        (line,) = right.plot([e["step"] for e in translated], bleu, "s--", color="#d94801")
        right.set_ylabel("BLEU, greedy")
        right.set_ylim(bottom=0)
        lines, labels = [*lines, line], [*labels, "BLEU"]
    axis.legend(lines, labels, loc="center right")
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True
