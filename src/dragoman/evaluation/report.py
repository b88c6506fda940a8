"""Evaluation reports: scores as JSON and Markdown, and the translations."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from dragoman import __version__
from dragoman.errors import OutputError
from dragoman.evaluation.metrics import MetricDifference, MetricScore, sentence_scores
from dragoman.evaluation.test_sets import EvaluationSet
from dragoman.files import write_atomically

N_WORST: Final = 20
MARKDOWN, JSON = "report.md", "report.json"
FILE_STARTS: Final = {MARKDOWN: "# Evaluation\n\n", JSON: '{\n "format": '}  # identify our own reports


@dataclass(frozen=True)
class SetResult:
    """The translations and scores of one test set."""

    test_set: EvaluationSet
    hypotheses: list[str]
    scores: list[MetricScore]
    seconds: float | None = None  # None if the translations are from a file
    differences: list[MetricDifference] = field(default_factory=list)
    flags: Mapping[str, int] = field(default_factory=dict)  # how many translations were truncated, empty, ...

    @property
    def rate(self) -> float | None:
        """Sentences per second."""
        return len(self.hypotheses) / max(self.seconds, 1e-9) if self.seconds is not None else None

    def worst(self, count: int = N_WORST) -> list[dict[str, Any]]:
        """The sentences with the lowest chrF, worst first, except those that equal the reference."""
        scores = sentence_scores(self.hypotheses, self.test_set.references)
        differing = [i for i, text in enumerate(self.hypotheses) if text != self.test_set.references[i]]
        order = sorted(differing, key=lambda i: scores[i])[:count]
        sources = self.test_set.sources
        return [
            {
                "line": i + 1,
                "chrF": round(scores[i], 2),
                "source": sources[i] if sources is not None else None,
                "translation": self.hypotheses[i],
                "reference": self.test_set.references[i],
            }
            for i in order
        ]


@dataclass(frozen=True)
class EvaluationReport:
    """The evaluated system (model, digest, engine and settings, or files) and its results."""

    system: Mapping[str, Any]
    results: list[SetResult]
    against: str | None = None
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the translations, for JSON."""
        sets = [
            {
                "name": result.test_set.name,
                **({} if result.test_set.to is None else {"to": result.test_set.to}),
                "sentences": len(result.hypotheses),
                "seconds": result.seconds,
                "sentences_per_second": result.rate,
                "scores": by_metric(result.scores),
                "differences": by_metric(result.differences),
                "flags": dict(result.flags),
                "worst": result.worst(),
            }
            for result in self.results
        ]
        about = {"format": 1, "made": self.created, "system": dict(self.system), "against": self.against}
        return {**about, "versions": installed_versions(), "sets": sets}

    def write(self, directory: Path) -> None:
        """Write report.json, report.md and a file of translations for each set; other files stay."""
        prepare_directory(directory)
        try:
            data = self.to_dict()
            names = unique_file_names([result.test_set.name for result in self.results])
            for name, result in zip(names, self.results, strict=True):
                text = "".join(" ".join(line.split("\n")) + "\n" for line in result.hypotheses)
                write_atomically(directory / f"{name}.translations.txt", text)
            write_atomically(directory / MARKDOWN, format_markdown(data))
            write_atomically(directory / JSON, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise cannot_write(directory, error) from None


def installed_versions() -> dict[str, str]:
    """The versions of Dragoman, sacreBLEU and, if it is installed, PyTorch."""
    versions = {"dragoman": __version__, "sacrebleu": version("sacrebleu")}
    with suppress(PackageNotFoundError):
        versions["torch"] = version("torch")
    return versions


def by_metric(figures: Sequence[MetricScore | MetricDifference]) -> dict[str, Any]:
    """Figures as dictionaries, by the name of their metric."""
    found = {figure.metric: asdict(figure) for figure in figures}
    return {metric: {k: v for k, v in values.items() if k != "metric"} for metric, values in found.items()}


def format_markdown(data: Mapping[str, Any]) -> str:
    """The report as Markdown."""
    metrics = list(data["sets"][0]["scores"])
    rows = [["set", "sentences", *metrics, "sentences/s"]]
    for each in data["sets"]:
        rate = each["sentences_per_second"]
        figures = [f"{each['scores'][m]['value']:.2f}" for m in metrics]
        rows.append([each["name"], f"{each['sentences']:,}", *figures, f"{rate:.1f}" if rate else "-"])
    system = "\n".join(f"- {name}: {value}" for name, value in data["system"].items())
    versions = ", ".join(f"{name} {number}" for name, number in data["versions"].items())
    parts = [
        f"{FILE_STARTS[MARKDOWN]}{data['made']}, {versions}.\n\n{system}\n",
        format_rows(rows),
        format_signatures(data, metrics),
    ]
    if data["against"]:
        parts.append(format_differences(data))
    for each in data["sets"]:
        flags = ", ".join(f"{name} {count}" for name, count in each["flags"].items())
        parts.append(f"## Worst sentences of {each['name']}, by chrF\n" + (f"\n{flags}\n" if flags else ""))
        worst = [["line", "chrF", "source", "translation", "reference"]]
        worst += [
            [str(w["line"]), f"{w['chrF']:.1f}", w["source"] or "-", w["translation"], w["reference"]]
            for w in each["worst"]
        ]
        parts.append(format_rows(worst) if each["worst"] else "Every translation equals its reference.\n")
    return "\n".join(parts)


def format_differences(data: Mapping[str, Any]) -> str:
    """The scores of both systems."""
    rows = [["set", "metric", "this", "other", "difference", "p"]]
    for each in data["sets"]:
        for metric, d in each["differences"].items():
            change = d["value"] - d["other"]
            figures = [f"{d['value']:.2f}", f"{d['other']:.2f}", f"{change:+.2f}", f"{d['p']:.4f}"]
            rows.append([each["name"], metric, *figures])
    return (
        f"## Against {data['against']}\n\nsacreBLEU's paired bootstrap resampling; p is the "
        f"p-value of the difference.\n\n{format_rows(rows)}"
    )


def format_signatures(data: Mapping[str, Any], metrics: list[str]) -> str:
    """Each signature once, with its test sets if there are several signatures."""
    lines: list[str] = []
    for metric in metrics:
        by_signature: dict[str, list[str]] = {}
        for each in data["sets"]:
            by_signature.setdefault(each["scores"][metric]["signature"], []).append(each["name"])
        for signature, names in by_signature.items():
            where = f" ({', '.join(names)})" if len(by_signature) > 1 else ""
            lines.append(f"- {metric}{where}: `{signature}`")
    return "\n".join(lines) + "\n"


def format_rows(rows: list[list[str]]) -> str:
    """A Markdown table, with escaped cells."""
    clean = [[re.sub(r"\s+", " ", cell).replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in [clean[0], ["---"] * len(rows[0]), *clean[1:]])


def unique_file_names(names: list[str]) -> list[str]:
    """Valid and distinct file names."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^\w.-]+", "_", name).strip(".") or "set"
        taken = {one.lower() for one in found}  # some file systems ignore case
        numbered = (f"{plain}-{number}" for number in count(2))
        found.append(plain if plain.lower() not in taken else next(n for n in numbered if n.lower() not in taken))
    return found


def prepare_directory(directory: Path) -> None:
    """Create the directory of a report; reject one that cannot be written to."""
    if directory.exists() and not directory.is_dir():
        raise OutputError(f"{directory} is a file, but --report needs a directory", code="not_a_directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
        foreign = [name for name in (MARKDOWN, JSON) if not may_replace(directory / name)]
    except OSError as error:
        raise cannot_write(directory, error) from None
    if foreign:
        message = f"{directory / foreign[0]} exists and is not an evaluation report; choose another --report"
        raise OutputError(message, code="output_exists")


def may_replace(path: Path) -> bool:
    """Whether a report may replace a file: it does not exist, or is an earlier report."""
    if not path.exists():
        return True
    with path.open("rb") as file:
        start = file.read(len(FILE_STARTS[path.name]))
    return not start or start == FILE_STARTS[path.name].encode()


def cannot_write(directory: Path, error: OSError) -> OutputError:
    """The error for a directory that cannot be written to."""
    return OutputError(f"cannot write the report to {directory}: {error.strerror}; choose another --report")
