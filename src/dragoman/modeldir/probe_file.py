"""`probes.jsonl`: what a model gave for some sentences when it was written, to compare other machines with.

The first line describes the search; each other line has a sentence and its results by engine and precision. The file is
listed in the manifest last, so a model whose writing was interrupted has no probes but is complete.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dragoman.errors import DamagedError
from dragoman.files import manifest_entries, parse_json
from dragoman.modeldir.save import add_file

PROBES: Final = "probes.jsonl"
PROBE_FORMAT: Final = 1
UNIT: Final = 1000  # attention weights are stored as thousandths
Attention = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class ProbeResult:
    """The best hypothesis of a sentence, and the attention `[T + 1, S + 1]` of one head or layer, in thousandths."""

    ids: tuple[int, ...]
    log_probability: float
    attention: Attention = ()

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> ProbeResult:
        """A result as stored."""
        rows = tuple(tuple(map(int, row)) for row in table["attention"])
        return cls(tuple(map(int, table["ids"])), float(table["log_probability"]), rows)

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
        return {"ids": self.ids, "log_probability": self.log_probability, "attention": self.attention}


@dataclass(frozen=True)
class Probe:
    """A sentence: its text, its ids with the token of a target language, and results by engine and precision."""

    text: str
    ids: tuple[int, ...]
    results: Mapping[str, ProbeResult]


@dataclass(frozen=True)
class ProbeSet:
    """The probes of a model; `layer` and `head` (None is the mean of the heads) say whose attention was stored."""

    beam: int
    layer: int
    head: int | None
    machine: str
    probes: Sequence[Probe]

    def write(self, directory: Path) -> None:
        """Add the probes to a finished model."""
        first = {"format": PROBE_FORMAT, "beam": self.beam, "layer": self.layer, "head": self.head}
        lines: list[dict[str, Any]] = [{**first, "machine": self.machine}]
        for probe in self.probes:
            results = {name: result.to_json() for name, result in probe.results.items()}
            lines.append({"text": probe.text, "ids": probe.ids, "results": results})
        content = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
        add_file(directory, PROBES, content)


def has_probes(directory: Path) -> bool:
    """Whether a model has probes."""
    return PROBES in manifest_entries(directory)


def read_probes(directory: Path) -> ProbeSet | None:
    """The probes of a verified model; None if it has no probes."""
    if not has_probes(directory):
        return None
    path = directory / PROBES
    try:
        first, *lines = [parse_json(line) for line in path.read_bytes().splitlines()]
        if first["format"] != PROBE_FORMAT:
            raise ValueError(f"format {first['format']}; this Dragoman reads {PROBE_FORMAT}")
        probes = [
            Probe(
                str(line["text"]),
                tuple(map(int, line["ids"])),
                {str(name): ProbeResult.from_json(result) for name, result in line["results"].items()},
            )
            for line in lines
        ]
        return ProbeSet(int(first["beam"]), int(first["layer"]), first["head"], str(first["machine"]), probes)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None
