"""Translation memories: earlier translations of the same or similar sentences, in TMX or TSV files."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dragoman.data.corpora.corpus import Corpus
from dragoman.data.corpora.reader import read_pairs
from dragoman.data.corpora.tmx import read_tmx
from dragoman.errors import DocumentError

MIN_SCORE: Final = 75.0  # of fuzzy matches, in percent; less similar sentences help nobody
MAX_CACHED: Final = 250_000  # pairs; larger memories are read again for each document
CHUNK: Final = 4096
Scorer = Callable[[str, str], float]


@dataclass(frozen=True)
class Match:
    """A sentence of a memory with its translation; `score` is its similarity in percent, 100 if it is the same."""

    source: str
    target: str
    score: float


def normalize(text: str) -> str:
    """Text as it is compared: composed characters, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def load_scorer() -> Scorer | None:
    """The similarity of two texts in percent; None if rapidfuzz is not installed."""
    try:
        from rapidfuzz import fuzz
    except ImportError:
        return None
    return lambda one, other: fuzz.ratio(one, other, score_cutoff=MIN_SCORE)


class Memory:
    """The pairs of one or more files, read in order; the last translation of a sentence counts."""

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
        self._cached: list[tuple[str, str]] | None = None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """All pairs, in order."""
        if self._cached is not None:
            yield from self._cached
            return
        kept: list[tuple[str, str]] | None = []
        for path in self.files:
            for pair in self._read(path):
                if kept is not None:
                    kept.append(pair)
                    kept = kept if len(kept) <= MAX_CACHED else None
                yield pair
        self._cached = kept

    def _read(self, path: Path) -> Iterator[tuple[str, str]]:
        if is_tmx(path):
            return read_tmx(path, self.source, self.target, may_be_empty=True)
        chunks = read_pairs(Corpus(path, form="tsv"), CHUNK)
        return (pair for sources, targets in chunks for pair in zip(sources, targets, strict=True))

    def match(self, texts: Collection[str], fuzzy: bool = True) -> dict[str, Match]:
        """The best match of each text that has one; memory is needed for the texts only."""
        wanted = {normalize(text) for text in texts} - {""}
        finder = FuzzyFinder(wanted, self.scorer) if fuzzy and self.scorer is not None else None
        found: dict[str, Match] = {}
        for source, target in self.pairs() if wanted else ():
            if not source or not target:
                continue
            own = normalize(source)
            if own in wanted:
                found[own] = Match(source, target, 100.0)
            if finder is None:
                continue
            for text, score in finder.find(own):
                if text != own and (text not in found or score >= found[text].score):
                    found[text] = Match(source, target, score)
        return {text: found[key] for text in texts if (key := normalize(text)) in found}


class FuzzyFinder:
    """Finds which of some texts are similar to a sentence; only those that share half of its words are compared."""

    def __init__(self, texts: Collection[str], scorer: Scorer) -> None:
        self.scorer = scorer
        self.texts = sorted(texts)
        self.sizes: list[int] = []
        self.index: dict[str, list[int]] = {}
        for number, text in enumerate(self.texts):
            own = features(text)
            self.sizes.append(len(own))
            for feature in own:
                self.index.setdefault(feature, []).append(number)

    def find(self, sentence: str) -> Iterator[tuple[str, float]]:
        """The similar texts, with their scores."""
        own = features(sentence)
        shared = Counter(number for feature in own if feature in self.index for number in self.index[feature])
        for number, count in shared.items():
            if 2 * count >= max(len(own), self.sizes[number]):
                score = self.scorer(sentence, self.texts[number])
                if score >= MIN_SCORE:
                    yield self.texts[number], min(score, 99.0)


def features(text: str) -> set[str]:
    """The words of a text; pairs of characters if it has hardly any spaces."""
    words = set(text.casefold().split())
    return words if len(words) > 2 else {text[i : i + 2].casefold() for i in range(max(1, len(text) - 1))}


def is_tmx(path: Path) -> bool:
    """Whether a memory is TMX by its name, compressed or not."""
    return ".tmx" in (suffix.lower() for suffix in path.suffixes[-2:])
