"""The teacher's translations on disk: files of some lines each, written completely or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.files import parse_json, write_atomically
from dragoman.translation.result import Translation

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

CHUNK_LINES: Final = 2000


@dataclass(frozen=True)
class TeacherLine:
    """A source with the teacher's translation; `per_token` is its mean log-probability of a token."""

    source: str
    target: str
    per_token: float
    flags: tuple[str, ...] = ()
    bleu: float | None = None  # against the reference, if there is one
    alignment: str = ""  # such as "0-0 1-2"

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> TeacherLine:
        """A line as stored."""
        return cls(**{**table, "flags": tuple(table["flags"])})


@dataclass(frozen=True)
class TeacherChunk:
    """Some sources with their references, and the file of their translations, which names their digest."""

    path: Path
    digest: str
    pairs: Sequence[tuple[str, str | None]]

    @property
    def given(self) -> list[tuple[str, str | None]]:
        """The pairs whose source is not empty."""
        return [pair for pair in self.pairs if pair[0].strip()]

    def is_translated(self) -> bool:
        """Whether the file has the translations of these sources."""
        try:
            rows = read_rows(self.path)
            return parse_json(next(rows)) == {"chunk": self.digest} and sum(1 for _ in rows) == len(self.given)
        except (OSError, ValueError, StopIteration):
            return False

    def write(self, translations: Sequence[Translation]) -> None:
        """Store the translations of `given`, the best of each n-best list where there is a reference."""
        lines = [choose_best(*pair, best) for pair, best in zip(self.given, translations, strict=True)]
        rows = [json.dumps(vars(line), ensure_ascii=False) for line in lines]
        write_atomically(self.path, "\n".join([json.dumps({"chunk": self.digest}), *rows]) + "\n")


def read_chunks(folder: Path, pairs: Iterator[tuple[str, str | None]]) -> Iterator[TeacherChunk]:
    """The sources in chunks."""
    number = 0
    while chunk := list(islice(pairs, CHUNK_LINES)):
        digest = hashlib.sha256(json.dumps(chunk).encode()).hexdigest()
        yield TeacherChunk(chunk_path(folder, number), digest, chunk)
        number += 1


def read_rows(path: Path) -> Iterator[bytes]:
    """The lines of a file."""
    return iter(path.read_bytes().splitlines())


@dataclass(frozen=True)
class StoredTranslations:
    """The translations of a folder, in order; iterate as often as needed."""

    folder: Path
    chunks: int

    def chunk_path(self, number: int, suffix: str = ".jsonl") -> Path:
        """The file of a chunk."""
        return chunk_path(self.folder, number, suffix)

    def read_chunk(self, number: int) -> list[TeacherLine]:
        """The lines of a chunk."""
        rows = islice(read_rows(self.chunk_path(number)), 1, None)
        return [TeacherLine.from_json(json.loads(row)) for row in rows]

    def __iter__(self) -> Iterator[TeacherLine]:
        """All lines, with the alignments of `align_translations`, if there are any."""
        for number in range(self.chunks):
            links, lines = self.chunk_path(number, ".align"), self.read_chunk(number)
            if links.exists():
                rows = links.read_text(encoding="utf-8").split("\n")[1:-1]  # the first line names the translations
                lines = [replace(line, alignment=row) for line, row in zip(lines, rows, strict=True)]
            yield from lines


def chunk_path(folder: Path, number: int, suffix: str = ".jsonl") -> Path:
    """The file of a chunk."""
    return folder / f"{number:06d}{suffix}"


def choose_best(source: str, reference: str | None, best: Translation) -> TeacherLine:
    """The best translation, by sentence BLEU if there is a reference."""
    bleu, chosen = None, best
    if reference is not None:
        candidates = [best, *best.alternatives]
        scores = [sentence_bleu(one.text, reference) for one in candidates]
        bleu, chosen = max(scores), candidates[scores.index(max(scores))]
    links = " ".join(f"{s}-{t}" for s, t in chosen.alignment or ())
    per_token = chosen.log_probability / (len(chosen.tokens) + 1)
    return TeacherLine(source, chosen.text, per_token, chosen.flags, bleu, links)


@cache
def bleu_metric() -> BLEU:
    """BLEU for single sentences."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(effective_order=True)


def sentence_bleu(hypothesis: str, reference: str) -> float:
    """BLEU of one sentence, smoothed, from 0 to 100."""
    return float(bleu_metric().sentence_score(hypothesis, [reference]).score)
