"""Translate the sources with the teacher, a chunk at a time; a chunk that is on disk is not translated again.

With references, the translation of the n-best list with the highest sentence BLEU is taken (Kim and Rush, 2016).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Final

from dragoman.data.corpora.reader import read_line_blocks
from dragoman.errors import DamagedError, DataError, TrainingError
from dragoman.files import MANIFEST, parse_json, sha256, write_atomically
from dragoman.progress import Reporter
from dragoman.translation.translator import Translator
from dragoman.values import plural

CHUNK_LINES: Final = 2000
SETTINGS: Final = "settings.json"


@dataclass(frozen=True)
class TeacherSettings:
    """What determines the translations: digests of the models and files, and the search."""

    teachers: Sequence[str]
    sources: Sequence[str]
    references: Sequence[str]
    beam: int
    n_best: int
    alignment: bool

    @classmethod
    def of(
        cls,
        models: Sequence[Path],
        sources: Sequence[Path],
        references: Sequence[Path],
        beam: int,
        n_best: int,
        alignment: bool,
    ) -> TeacherSettings:
        """The settings of some models and files."""
        manifests = [model / MANIFEST for model in models]
        digests = [[sha256(path) for path in paths] for paths in (manifests, sources, references)]
        return cls(digests[0], digests[1], digests[2], beam, n_best, alignment)

    def confirm(self, folder: Path) -> None:
        """Record the settings, or raise TrainingError if the folder was started with others."""
        path, own = folder / SETTINGS, json.loads(json.dumps(asdict(self)))
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_atomically(path, json.dumps(own, indent=1) + "\n")
            return
        try:
            found = parse_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise DamagedError(f"{path} cannot be read ({error}); remove {folder} to translate again") from None
        for key, value in own.items():
            if found.get(key) != value:
                raise TrainingError(
                    f"{folder} was started with other {key}; give the same ones to resume, or another --out",
                    code="run_mismatch",
                )


@dataclass(frozen=True)
class TeacherJob:
    """What is translated, with what, and into which folder: all that another machine needs."""

    models: Sequence[Path]
    settings: TeacherSettings
    sources: Sequence[Path]
    references: Sequence[Path]
    folder: Path
    device: str


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


def read_sources(sources: Sequence[Path], references: Sequence[Path]) -> Iterator[tuple[str, str | None]]:
    """The lines of all source files, each with its reference, if there are any."""
    for number, path in enumerate(sources):
        lines = chain.from_iterable(read_line_blocks(path))
        if not references:
            yield from ((line, None) for line in lines)
            continue
        others = chain.from_iterable(read_line_blocks(references[number]))
        for line, other in zip_longest(lines, others):
            if line is None or other is None:
                raise DataError(
                    f"{path} and {references[number]} differ in their number of lines; line i of one must be the "
                    "translation of line i of the other",
                    code="count_mismatch",
                )
            yield line, other


def translate_sources(
    folder: Path,
    translator: Translator,
    settings: TeacherSettings,
    pairs: Iterator[tuple[str, str | None]],
    total: int,
    reporter: Reporter,
) -> Iterator[TeacherLine]:
    """Yield the teacher's line for each source; empty lines are left out. `total` is for the progress."""
    reporter.start_stage("translate", total, "lines")
    for chunk in read_chunks(folder, pairs):
        lines = read_chunk(chunk.path, chunk.digest)
        if lines is None:
            lines = write_chunk(translator, settings, chunk)
        yield from lines
        reporter.advance(len(chunk.pairs))


@dataclass(frozen=True)
class TeacherChunk:
    """Some sources with their references, and the file of their translations."""

    path: Path
    digest: str
    pairs: Sequence[tuple[str, str | None]]


def read_chunks(folder: Path, pairs: Iterator[tuple[str, str | None]]) -> Iterator[TeacherChunk]:
    """The sources in chunks."""
    number = 0
    while chunk := list(islice(pairs, CHUNK_LINES)):
        digest = hashlib.sha256(json.dumps(chunk).encode()).hexdigest()
        yield TeacherChunk(folder / f"{number:06d}.jsonl", digest, chunk)
        number += 1


def write_chunk(translator: Translator, settings: TeacherSettings, chunk: TeacherChunk) -> list[TeacherLine]:
    """Translate a chunk, and store its lines."""
    lines = translate_chunk(translator, settings, chunk.pairs)
    rows = [json.dumps(asdict(line), ensure_ascii=False) for line in lines]
    write_atomically(chunk.path, "\n".join([json.dumps({"chunk": chunk.digest}), *rows]) + "\n")
    return lines


def read_chunk(path: Path, digest: str) -> list[TeacherLine] | None:
    """The lines of a chunk; None if it is not there, or is of other lines."""
    try:
        first, *rows = path.read_bytes().splitlines()
        if parse_json(first) != {"chunk": digest}:
            return None
        return [TeacherLine.from_json(parse_json(row)) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def translate_chunk(
    translator: Translator, settings: TeacherSettings, chunk: Sequence[tuple[str, str | None]]
) -> list[TeacherLine]:
    """Translate some lines, and choose from the n-best lists where there are references."""
    given = [(source, reference) for source, reference in chunk if source.strip()]
    found = translator.translate(
        [source for source, _ in given],
        beam=settings.beam,
        n_best=settings.n_best,
        alignment=settings.alignment,
    )
    lines = []
    for (source, reference), best in zip(given, found, strict=True):
        bleu, chosen = None, best
        if reference is not None:
            candidates = [best, *best.alternatives]
            scores = [sentence_bleu(one.text, reference) for one in candidates]
            bleu, chosen = max(scores), candidates[scores.index(max(scores))]
        links = " ".join(f"{s}-{t}" for s, t in chosen.alignment or ())
        per_token = chosen.log_probability / (len(chosen.tokens) + 1)
        lines.append(TeacherLine(source, chosen.text, per_token, chosen.flags, bleu, links))
    return lines


def sentence_bleu(hypothesis: str, reference: str) -> float:
    """BLEU of one sentence, smoothed, from 0 to 100."""
    from sacrebleu.metrics.bleu import BLEU

    return float(BLEU(effective_order=True).sentence_score(hypothesis, [reference]).score)


def count_lines(sources: Sequence[Path]) -> int:
    """The number of lines of some files, for the progress."""
    total = sum(len(block) for path in sources for block in read_line_blocks(path))
    if not total:
        raise DataError(f"{plural(len(sources), 'source file')} without a line; give sentences", code="no_data")
    return total
