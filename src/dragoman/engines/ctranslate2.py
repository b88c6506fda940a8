"""The CTranslate2 engine, for machines without a C compiler; the model is converted on first use.

It has its own beam search: hypotheses are found by its rules and then ranked by ours, and the score of one that is cut
off at the length limit has no end mark. Greedy search is the same up to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.config import Recipe
from dragoman.engines.base import check_supported
from dragoman.engines.ctranslate2_model import MARKS, to_ctranslate2, unsupported_part
from dragoman.engines.native import default_threads
from dragoman.engines.specs import CTRANSLATE2
from dragoman.errors import SearchError
from dragoman.files import MANIFEST
from dragoman.modeldir.layout import RECIPE
from dragoman.native.build import cache_directory
from dragoman.search.types import Hypothesis, Search
from dragoman.text.special_tokens import BOS, EOS, PAD

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import ConstraintTables


class CTranslate2Engine:
    """A model converted for CTranslate2, with one worker per thread."""

    name = "ctranslate2"
    capabilities = CTRANSLATE2

    def __init__(self, model: Path, threads: int | None = None) -> None:
        import ctranslate2

        self.threads = workers = threads or default_threads()
        self.batch = CTRANSLATE2.preferred_batch * workers
        self.translator: Any = ctranslate2.Translator(str(model), inter_threads=workers, intra_threads=1)
        self.precision = str(self.translator.compute_type)  # another where the CPU lacks the requested one
        self.ids = {mark: i for i, mark in MARKS.items()}

    @classmethod
    def load(cls, directory: Path, threads: int | None = None, quantize: bool = True) -> CTranslate2Engine | None:
        """The engine of a verified model directory; None without CTranslate2, or if it does not support the model."""
        try:
            import ctranslate2
        except ImportError:
            return None
        if unsupported_part(Recipe.load(directory / RECIPE).model):
            return None
        kind = "int8" if quantize else "float32"
        key = (ctranslate2.__version__, kind, (directory / MANIFEST).read_bytes())
        converted = cache_directory() / "ctranslate2" / hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        if not converted.is_dir():
            to_ctranslate2(directory, converted, kind)
        return cls(converted, threads)

    def search(
        self,
        sources: Sequence[Sequence[int]],
        search: Search,
        prefixes: Sequence[Sequence[int]] | None = None,
        constraints: Sequence[ConstraintTables | None] | None = None,
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first."""
        check_supported(self, search, prefixes, constraints)
        limits = [search.limit(len(source)) for source in sources]
        found = self._translate(sources, search, max(limits, default=0))
        for i, (limit, best) in enumerate(zip(limits, found, strict=True)):
            if limit == 0 or any(len(h.ids) > limit for h in best):  # another sentence has a higher limit
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
                max_batch_size=CTRANSLATE2.preferred_batch,
                suppress_sequences=[[MARKS[PAD]], [MARKS[BOS]]],
                return_scores=True,
            )
        except (RuntimeError, ValueError, LookupError, ArithmeticError) as error:  # C++ exceptions, by pybind11
            longest = max(map(len, sources))
            raise SearchError(
                f"CTranslate2 failed on {len(sources):,} sentence{'s' if sources[1:] else ''}, the longest of "
                f"{longest:,} tokens, with at most {limit:,} output tokens and beam {search.beam}: {error}; let long "
                "lines be split (split='long'), or use the engine 'native' or 'torch'",
                code="engine_failed",
            ) from None
        return [self._rank(result, search, limit) for result in results]

    def _rank(self, result: Any, search: Search, limit: int) -> list[Hypothesis]:
        """Rescale scores: CTranslate2 divides by (tokens and end mark) ** length_penalty."""
        ranked = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            length, cut = len(tokens), len(tokens) == limit
            total = score * (length if cut else length + 1) ** (search.length_penalty if search.beam > 1 else 0.0)
            ids = [self.ids[token] if token in self.ids else int(token) for token in tokens]
            ranked.append(Hypothesis(ids, total / search.normalizer(length + 1), total, cut))
        return sorted(ranked, key=lambda h: -h.score)[: search.n_best]
