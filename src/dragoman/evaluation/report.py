"""A saved evaluation: figures that a program reads, a page that a person reads, and the translations themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from dragoman import __version__
from dragoman.errors import DataError
from dragoman.evaluation.metrics import Difference, Score, sentence_scores
from dragoman.evaluation.test_sets import HeldOut
from dragoman.files import write_atomically

WORST = 20
PAGE, TABLE = "report.md", "report.json"
BEGINS = {PAGE: "# Evaluation\n\n", TABLE: '{\n "format": '}  # by which a report of ours is known


@dataclass(frozen=True)
class Result:
    """One test set, how it was translated, and what came of it."""

    held_out: HeldOut
    hypotheses: list[str]
    scores: list[Score]
    seconds: float | None = None  # None where the translations came from a file
    differences: list[Difference] = field(default_factory=list)
    flags: Mapping[str, int] = field(default_factory=dict)  # how many translations were truncated, empty, ...

    @property
    def rate(self) -> float | None:
        """Sentences a second."""
        return len(self.hypotheses) / max(self.seconds, 1e-9) if self.seconds is not None else None

    def worst(self, count: int = WORST) -> list[dict[str, Any]]:
        """The sentences with the lowest chrF, worst first; those that are the reference itself are none of them."""
        marks = sentence_scores(self.hypotheses, self.held_out.references)
        wrong = [i for i, text in enumerate(self.hypotheses) if text != self.held_out.references[i]]
        order = sorted(wrong, key=lambda i: marks[i])[:count]
        sources = self.held_out.sources
        return [
            {
                "line": i + 1,
                "chrF": round(marks[i], 2),
                "source": sources[i] if sources is not None else None,
                "translation": self.hypotheses[i],
                "reference": self.held_out.references[i],
            }
            for i in order
        ]


@dataclass(frozen=True)
class Report:
    """What was evaluated (`system`: model, digest, engine, settings, or files), against what, and the results."""

    system: Mapping[str, Any]
    results: list[Result]
    against: str | None = None
    made: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))

    def table(self) -> dict[str, Any]:
        """All of it but the translations, as JSON has it."""
        sets = [
            {
                "name": result.held_out.name,
                **({} if result.held_out.to is None else {"to": result.held_out.to}),
                "sentences": len(result.hypotheses),
                "seconds": result.seconds,
                "sentences_per_second": result.rate,
                "scores": {s.metric: {k: v for k, v in asdict(s).items() if k != "metric"} for s in result.scores},
                "differences": {
                    d.metric: {k: v for k, v in asdict(d).items() if k != "metric"} for d in result.differences
                },
                "flags": dict(result.flags),
                "worst": result.worst(),
            }
            for result in self.results
        ]
        versions = {"dragoman": __version__, "sacrebleu": version("sacrebleu"), "torch": version("torch")}
        return {
            "format": 1,
            "made": self.made,
            "system": dict(self.system),
            "against": self.against,
            "versions": versions,
            "sets": sets,
        }

    def write(self, directory: Path) -> None:
        """report.json, report.md and a file of translations for each set; other files there are left alone."""
        make_room(directory)
        try:
            table = self.table()
            for name, result in zip(file_names([r.held_out.name for r in self.results]), self.results, strict=True):
                text = "".join(" ".join(line.split("\n")) + "\n" for line in result.hypotheses)
                write_atomically(directory / f"{name}.translations.txt", text)
            write_atomically(directory / PAGE, markdown(table))
            write_atomically(directory / TABLE, json.dumps(table, indent=1, ensure_ascii=False) + "\n")
        except OSError as error:
            raise unwritten(directory, error) from None


def markdown(table: Mapping[str, Any]) -> str:
    """The table as a page."""
    metrics = list(table["sets"][0]["scores"])
    rows = [["set", "sentences", *metrics, "sentences/s"]]
    for each in table["sets"]:
        rate = each["sentences_per_second"]
        figures = [f"{each['scores'][m]['value']:.2f}" for m in metrics]
        rows.append([each["name"], f"{each['sentences']:,}", *figures, f"{rate:.1f}" if rate else "-"])
    system = "\n".join(f"- {name}: {value}" for name, value in table["system"].items())
    versions = ", ".join(f"{name} {number}" for name, number in table["versions"].items())
    parts = [f"{BEGINS[PAGE]}{table['made']}, {versions}.\n\n{system}\n", rows_of(rows), signatures(table, metrics)]
    if table["against"]:
        parts.append(differences(table))
    for each in table["sets"]:
        flags = ", ".join(f"{name} {count}" for name, count in each["flags"].items())
        parts.append(f"## The worst of {each['name']}, by chrF of the sentence\n" + (f"\n{flags}\n" if flags else ""))
        worst = [["line", "chrF", "source", "translation", "reference"]]
        worst += [
            [str(w["line"]), f"{w['chrF']:.1f}", w["source"] or "-", w["translation"], w["reference"]]
            for w in each["worst"]
        ]
        parts.append(rows_of(worst) if each["worst"] else "Every translation is the reference, to the letter.\n")
    return "\n".join(parts)


def differences(table: Mapping[str, Any]) -> str:
    """Both systems side by side."""
    rows = [["set", "metric", "this", "other", "difference", "p"]]
    for each in table["sets"]:
        for metric, d in each["differences"].items():
            change = d["value"] - d["other"]
            figures = [f"{d['value']:.2f}", f"{d['other']:.2f}", f"{change:+.2f}", f"{d['p']:.4f}"]
            rows.append([each["name"], metric, *figures])
    return (
        f"## Against {table['against']}\n\nsacreBLEU's paired bootstrap; p is how often chance alone makes so great a "
        f"difference.\n\n{rows_of(rows)}"
    )


def signatures(table: Mapping[str, Any], metrics: list[str]) -> str:
    """Each signature once, with the sets it belongs to where there are several."""
    lines: list[str] = []
    for metric in metrics:
        by_signature: dict[str, list[str]] = {}
        for each in table["sets"]:
            by_signature.setdefault(each["scores"][metric]["signature"], []).append(each["name"])
        for signature, names in by_signature.items():
            where = f" ({', '.join(names)})" if len(by_signature) > 1 else ""
            lines.append(f"- {metric}{where}: `{signature}`")
    return "\n".join(lines) + "\n"


def rows_of(rows: list[list[str]]) -> str:
    """A Markdown table; what would end a cell is escaped."""
    clean = [[re.sub(r"\s+", " ", cell).replace("\\", "\\\\").replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in [clean[0], ["---"] * len(rows[0]), *clean[1:]])


def file_names(names: list[str]) -> list[str]:
    """Names that every file system takes, and no two of them the same."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[^\w.-]+", "_", name).strip(".") or "set"
        taken = {one.lower() for one in found}  # some file systems see no case
        numbered = (f"{plain}-{number}" for number in count(2))
        found.append(plain if plain.lower() not in taken else next(n for n in numbered if n.lower() not in taken))
    return found


def make_room(directory: Path) -> None:
    """The directory of a report, made if need be; refused where nothing can be written there."""
    if directory.exists() and not directory.is_dir():
        raise DataError(f"{directory} is a file, but --report is the directory to write; choose another name")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory):
            pass
        foreign = [name for name in (PAGE, TABLE) if not replaceable(directory / name)]
    except OSError as error:
        raise unwritten(directory, error) from None
    if foreign:
        raise DataError(
            f"{directory / foreign[0]} is there already, and no report of ours; it is left alone, so choose another "
            "--report"
        )


def replaceable(path: Path) -> bool:
    """Whether a report may take a file's place: none is there, or one of an earlier report."""
    if not path.exists():
        return True
    with path.open("rb") as file:
        start = file.read(len(BEGINS[path.name]))
    return not start or start == BEGINS[path.name].encode()


def unwritten(directory: Path, error: OSError) -> DataError:
    """Why there is no report."""
    return DataError(f"the report cannot be written to {directory}: {error.strerror}; choose another --report")
