"""The teacher's translations on disk: files of some lines each, written completely or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.files import parse_json, write_atomically
from dragoman.translation.result import Translation

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

CHUNK_LINES: Final = 2000
ENCODER: Final = json.JSONEncoder(ensure_ascii=False)


class TeacherLine(NamedTuple):
    """A source with the teacher's translation; `per_token` is its mean log-probability of a token."""

    source: str
    target: str
    per_token: float
    flags: tuple[str, ...] = ()
    bleu: float | None = None  # against the reference, if there is one
    alignment: str = ""  # such as "0-0 1-2"

    @classmethod
    def from_json(cls, table: dict[str, Any], **changes: str) -> TeacherLine:
        """A line as stored, with other values of some fields."""
        return cls(**(table | {"flags": tuple(table["flags"])} | changes))


@dataclass(frozen=True)
class TeacherChunk:
    """Some sources with their references, and the file of their translations, which names their digest."""

    path: Path
    digest: str
    pairs: Sequence[tuple[str, str | None]]

    @cached_property
    def given(self) -> list[tuple[str, str | None]]:
        """The pairs whose source is not empty."""
        return [pair for pair in self.pairs if pair[0].strip()]

    def is_translated(self) -> bool:
        """Whether the file has the translations of these sources."""
        try:
            rows = read_rows(self.path)
            return parse_json(rows[0]) == {"chunk": self.digest} and len(rows) - 1 == len(self.given)
        except (OSError, ValueError, IndexError):
            return False

    def write(self, translations: Sequence[Translation]) -> None:
        """Store the translations of `given`, the best of each n-best list where there is a reference."""
        lines = [choose_best(*pair, best) for pair, best in zip(self.given, translations, strict=True)]
        rows = [ENCODER.encode(line._asdict()) for line in lines]
        write_atomically(self.path, "\n".join([json.dumps({"chunk": self.digest}), *rows]) + "\n")


def read_chunks(folder: Path, pairs: Iterator[tuple[str, str | None]]) -> Iterator[TeacherChunk]:
    """The sources in chunks."""
    number = 0
    while chunk := list(islice(pairs, CHUNK_LINES)):
        digest = hashlib.sha256(json.dumps(chunk).encode()).hexdigest()
        yield TeacherChunk(chunk_path(folder, number), digest, chunk)
        number += 1


def read_rows(path: Path) -> list[bytes]:
    """The lines of a file."""
    return path.read_bytes().splitlines()


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
        return [TeacherLine.from_json(table) for table in self._read_tables(number)]

    def _read_tables(self, number: int) -> list[dict[str, Any]]:
        """The lines of a chunk as JSON objects; one call of the parser is faster than one for each line."""
        rows = read_rows(self.chunk_path(number))[1:]
        found: list[dict[str, Any]] = json.loads(b"[%b]" % b",".join(rows))
        return found

    def __iter__(self) -> Iterator[TeacherLine]:
        """All lines, with the alignments of `align_translations`, if there are any."""
        for number in range(self.chunks):
            links = self.chunk_path(number, ".align")
            if not links.exists():
                yield from self.read_chunk(number)
                continue
            rows = links.read_text(encoding="utf-8").split("\n")[1:-1]  # the first line names the translations
            for table, row in zip(self._read_tables(number), rows, strict=True):
                yield TeacherLine.from_json(table, alignment=row)


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
    links = " ".join([f"{s}-{t}" for s, t in chosen.alignment]) if chosen.alignment else ""
    per_token = chosen.log_probability / (chosen.n_tokens + 1)
    return TeacherLine(source, chosen.text, per_token, chosen.flags, bleu, links)


@cache
def bleu_metric() -> BLEU:
    """BLEU for single sentences."""
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(effective_order=True)


def sentence_bleu(hypothesis: str, reference: str) -> float:
    """BLEU of one sentence, smoothed, from 0 to 100."""
    return float(bleu_metric().sentence_score(hypothesis, [reference]).score)
