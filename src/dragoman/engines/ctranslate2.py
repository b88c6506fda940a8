"""CTranslate2 behind the same `Translator`, for machines without a C compiler; the model is converted on first use.

Its beam search is its own: hypotheses are found by its rules and then ranked by ours, and one that is cut off at the
limit of its length has no end mark in its score. Greedy search is the same up to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from dragoman.config import Recipe
from dragoman.engines.ctranslate2_model import MARKS, to_ctranslate2, why_not
from dragoman.engines.native import usual_threads
from dragoman.errors import SearchError
from dragoman.files import MANIFEST
from dragoman.modeldir.layout import RECIPE
from dragoman.native.build import cache_directory
from dragoman.search.types import Hypothesis, Search
from dragoman.text.special_tokens import BOS, EOS, PAD

MOST_SENTENCES: Final = 32  # that one worker translates at once; measured, more is slower


class CTranslate2Engine:
    """A model converted for CTranslate2, each thread a worker of its own."""

    name = "ctranslate2"
    independent = False
    batch = 64

    def __init__(self, model: Path, threads: int | None = None) -> None:
        import ctranslate2

        self.threads = workers = threads or usual_threads()
        self.batch = MOST_SENTENCES * workers
        self.translator: Any = ctranslate2.Translator(str(model), inter_threads=workers, intra_threads=1)
        self.precision = str(self.translator.compute_type)  # where the CPU lacks the one asked for, another
        self.ids = {mark: i for i, mark in MARKS.items()}

    @classmethod
    def load(cls, directory: Path, threads: int | None = None, quantize: bool = True) -> CTranslate2Engine | None:
        """The engine of a model directory that has been verified; None without CTranslate2, or where it has no such
        model."""
        try:
            import ctranslate2
        except ImportError:
            return None
        if why_not(Recipe.load(directory / RECIPE).model):
            return None
        kind = "int8" if quantize else "float32"
        about = (ctranslate2.__version__, kind, (directory / MANIFEST).read_bytes())
        place = cache_directory() / "ctranslate2" / hashlib.sha256(repr(about).encode()).hexdigest()[:20]
        if not place.is_dir():
            to_ctranslate2(directory, place, kind)
        return cls(place, threads)

    def can(self, search: Search, prefixes: bool = False) -> bool:
        """Plain greedy and beam search."""
        return search.sampling is None and not search.no_repeat and not prefixes

    def search(
        self, sources: Sequence[Sequence[int]], search: Search, prefixes: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first."""
        limits = [search.limit(len(source)) for source in sources]
        found = self._translate(sources, search, max(limits, default=0))
        for i, (limit, best) in enumerate(zip(limits, found, strict=True)):
            if limit == 0 or any(len(h.tokens) > limit for h in best):  # the others' limit is higher
                found[i] = self._translate([sources[i]], search, limit)[0]
        return found

    def _translate(self, sources: Sequence[Sequence[int]], search: Search, limit: int) -> list[list[Hypothesis]]:
        if limit == 0:
            return [[Hypothesis([], 0.0, 0.0, True)] for _ in sources]
        tokens = [[*[MARKS.get(i, str(i)) for i in source], MARKS[EOS]] for source in sources]
        try:
            results = self.translator.translate_batch(
                tokens,
                beam_size=search.beam,
                num_hypotheses=search.beam,
                length_penalty=search.length_penalty,
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=search.min_length,
                max_batch_size=MOST_SENTENCES,
                suppress_sequences=[[MARKS[PAD]], [MARKS[BOS]]],
                return_scores=True,
            )
        except (RuntimeError, ValueError, LookupError, ArithmeticError) as error:  # what pybind11 makes of C++'s
            longest = max(map(len, sources))
            raise SearchError(
                f"CTranslate2 did not translate {len(sources):,} sentence{'s' if sources[1:] else ''}, the longest of "
                f"{longest:,} tokens, to at most {limit:,} with beam {search.beam}: {error}; let long lines be split "
                "(split 'long'), or use the engine 'native' or 'torch'"
            ) from None
        return [self._ranked(result, search, limit) for result in results]

    def _ranked(self, result: Any, search: Search, limit: int) -> list[Hypothesis]:
        """CTranslate2 divides by (tokens and end mark) ** length_penalty; we divide by ours."""
        ranked = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            length, cut = len(tokens), len(tokens) == limit
            total = score * (length if cut else length + 1) ** (search.length_penalty if search.beam > 1 else 0.0)
            ids = [self.ids[token] if token in self.ids else int(token) for token in tokens]
            ranked.append(Hypothesis(ids, total / search.normalizer(length + 1), total, cut))
        return sorted(ranked, key=lambda h: -h.score)[: search.n_best]
