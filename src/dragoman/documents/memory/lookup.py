"""Translation memories: earlier translations of the same or similar sentences, in TMX or TSV files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read_pairs
from dragoman.data.corpora.tmx import read_tmx
from dragoman.documents.memory.index import MemoryIndex, features, normalize
from dragoman.errors import DocumentError

MIN_SCORE: Final = 75.0  # of fuzzy matches, in percent; less similar sentences help nobody
CHUNK: Final = 4096
Scorer = Callable[[str, str], float]


@dataclass(frozen=True)
class Match:
    """A sentence of a memory with its translation; `score` is its similarity in percent, 100 if it is the same."""

    source: str
    target: str
    score: float


def load_scorer() -> Scorer | None:
    """The similarity of two texts in percent; None if rapidfuzz is not installed."""
    try:
        from rapidfuzz import fuzz
    except ImportError:
        return None
    return lambda one, other: fuzz.ratio(one, other, score_cutoff=MIN_SCORE)


class Memory:
    """The pairs of one or more files; the last translation of a sentence counts.

    The files are read and indexed once, when the first text is looked up.
    """

    def __init__(self, files: Sequence[Path], source: str = "", target: str = "") -> None:
        for path in files:
            if is_tmx(path) and not (source and target):
                raise DocumentError(
                    f"{path} needs the languages of the translation, and the model does not say them; give a TSV file "
                    "with source, tab, target instead",
                    code="missing_language",
                )
        self.files, self.source, self.target = tuple(files), source, target
        self.scorer = load_scorer()
        self._index: MemoryIndex | None = None
        self.lock = Lock()

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All pairs, in order."""
        for path in self.files:
            yield from self._read(path)

    def _read(self, path: Path) -> Iterator[tuple[str, str]]:
        if is_tmx(path):
            return read_tmx(path, self.source, self.target, may_be_empty=True)
        chunks = read_pairs(Corpus(path, form="tsv"), CHUNK)
        return (pair for sources, targets in chunks for pair in zip(sources, targets, strict=True))

    @property
    def index(self) -> MemoryIndex:
        """The index of all pairs."""
        with self.lock:  # a server may look up two documents at once
            if self._index is None:
                self._index = MemoryIndex(self.pairs(), similar=self.scorer is not None)
            return self._index

    def match(self, texts: Collection[str]) -> dict[str, Match]:
        """The best match of each text that has one."""
        found: dict[str, Match] = {}
        index = self.index
        for text in {*texts}:
            if key := normalize(text):
                exact = index.find(key)
                match = self._similar(key) if exact is None else Match(*exact, 100.0)
                if match is not None:
                    found[text] = match
        return found

    def _similar(self, text: str) -> Match | None:
        """The best fuzzy match of a normalized text; the last of several that are equally good."""
        best: Match | None = None
        if self.scorer is None:
            return best
        own = features(text)
        for other, source, target in self.index.candidates(text):
            score = min(self.scorer(text, other), 99.0)
            if score >= MIN_SCORE and (best is None or score >= best.score):
                words = features(other)
                if 2 * len(own & words) >= max(len(own), len(words)):
                    best = Match(source, target, score)
        return best


def find_exact(memory: Memory, texts: Collection[str]) -> dict[str, str]:
    """The translation of each text that the memory has; the files are read as a stream, without an index."""
    wanted = {normalize(text) for text in texts}
    found: dict[str, str] = {}
    for source, target in memory.pairs():
        if target and (text := normalize(source)) in wanted:
            found[text] = target
    return {text: found[key] for text in texts if (key := normalize(text)) in found}


def is_tmx(path: Path) -> bool:
    """Whether a memory is TMX by its name, compressed or not."""
    return ".tmx" in (suffix.lower() for suffix in path.suffixes[-2:])
