"""Translate the sources with the teacher, a chunk at a time; a chunk that is on disk is not translated again.

With references, the translation of the n-best list with the highest sentence BLEU is taken (Kim and Rush, 2016).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, Final

from dragoman.data.corpora.lines import read_line_blocks
from dragoman.distillation.translations import StoredTranslations, TeacherChunk, chunk_path, read_chunks
from dragoman.errors import DamagedError, DataError, TrainingError
from dragoman.files import MANIFEST, parse_json, sha256, write_atomically
from dragoman.progress import Reporter
from dragoman.translation.translator import Translator
from dragoman.values import plural

SETTINGS: Final = "settings.json"


@dataclass(frozen=True)
class TeacherSettings:
    """What determines the translations: digests of the models and files, and the search."""

    teachers: Sequence[str]
    sources: Sequence[str]
    references: Sequence[str]
    beam: int
    n_best: int
    alignment: bool  # of the search; with a reverse model, words are aligned later

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

    @property
    def search(self) -> dict[str, Any]:
        """The arguments of `Translator.stream`."""
        return {"beam": self.beam, "n_best": self.n_best, "alignment": self.alignment}

    def confirm(self, folder: Path) -> None:
        """Record the settings, or raise TrainingError if the folder was started with others."""
        path, own = folder / SETTINGS, json.loads(json.dumps(asdict(self)))
        folder.mkdir(parents=True, exist_ok=True)
        if not path.exists() or not chunk_path(folder, 0).exists():  # nothing has been translated yet
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


def read_sources(sources: Sequence[Path], references: Sequence[Path]) -> Iterator[tuple[str, str | None]]:
    """The lines of all source files, each with its reference, if there are any."""
    for number, path in enumerate(sources):
        lines = chain.from_iterable(read_line_blocks(path))
        if not references:
            yield from ((line, None) for line in lines)
            continue
        others = chain.from_iterable(read_line_blocks(references[number]))
        for done, (line, other) in enumerate(zip_longest(lines, others)):
            if line is None or other is None:
                longer = done + 1 + sum(1 for _ in (others if line is None else lines))
                counts = (done, longer) if line is None else (longer, done)
                raise DataError(
                    f"{path} has {plural(counts[0], 'line')} but {references[number]} has {counts[1]:,}; line i of one "
                    "must be the translation of line i of the other",
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
) -> StoredTranslations:
    """Translate the sources that are not on disk yet; empty lines are left out. `total` is for the progress."""
    reporter.start_stage("translate", total, "lines")
    waiting: deque[TeacherChunk] = deque()
    count = 0

    def missing() -> Iterator[list[str]]:
        nonlocal count
        for chunk in read_chunks(folder, pairs):
            count += 1
            if not chunk.is_translated() and chunk.given:
                waiting.append(chunk)
                yield [source for source, _ in chunk.given]
                continue
            if not chunk.given:
                chunk.write([])
            reporter.advance(len(chunk.pairs))

    results = translator.stream(chain.from_iterable(missing()), **settings.search)
    for first in results:
        chunk = waiting.popleft()
        chunk.write([first, *islice(results, len(chunk.given) - 1)])
        reporter.advance(len(chunk.pairs))
    return StoredTranslations(folder, count)


def count_lines(sources: Sequence[Path]) -> int:
    """The number of lines of some files, for the progress."""
    total = sum(len(block) for path in sources for block in read_line_blocks(path))
    if not total:
        raise DataError(f"{plural(len(sources), 'source file')} without a line; give sentences", code="no_data")
    return total
