"""The CTranslate2 engine, for machines without a C compiler; the model is converted on first use.

It runs its own beam search; its hypotheses are then ranked by our score. Hypotheses truncated at the length limit are
scored again with their EOS token. Greedy search is the same up to rounding.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.config import Recipe
from dragoman.engines.base import check_supported
from dragoman.engines.ctranslate2_conversion import SPECIAL_NAMES, converted_files, unsupported_by_ctranslate2
from dragoman.engines.native import default_threads
from dragoman.engines.specs import CTRANSLATE2
from dragoman.errors import SearchError
from dragoman.files import MANIFEST
from dragoman.modeldir.layout import RECIPE
from dragoman.native.cache import cache_directory, private_directory
from dragoman.search.types import Hypothesis, Ids, RecordedHead, Search, StopFlag
from dragoman.text.special_tokens import BOS, EOS, PAD
from dragoman.values import plural

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import BatchConstraints


class CTranslate2Engine:
    """A model converted for CTranslate2, given as the content of its files, with one worker per thread."""

    name = "ctranslate2"
    capabilities = CTRANSLATE2

    def __init__(self, files: Mapping[str, bytes], threads: int | None = None) -> None:
        import ctranslate2

        self.threads = workers = threads or default_threads()
        self.batch = CTRANSLATE2.preferred_batch * workers
        self.translator: Any = ctranslate2.Translator(
            "model", files=dict(files), inter_threads=workers, intra_threads=1
        )
        self.precision = str(self.translator.compute_type)  # differs from the requested one if the CPU lacks it
        self.ids = {name: i for i, name in SPECIAL_NAMES.items()}

    @classmethod
    def load(
        cls, directory: Path, threads: int | None = None, quantize: bool = True, adapter: Path | None = None
    ) -> CTranslate2Engine | None:
        """Load a verified model directory; None if CTranslate2 is not installed or does not support the model."""
        try:
            import ctranslate2
        except ImportError:
            return None
        if unsupported_by_ctranslate2(Recipe.load(directory / RECIPE).model):
            return None
        kind = "int8" if quantize else "float32"
        manifests = [(part / MANIFEST).read_bytes() for part in (directory, adapter) if part is not None]
        key = (ctranslate2.__version__, kind, *manifests)
        cached = private_directory(cache_directory() / "ctranslate2")
        place = cached / hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        return cls(converted_files(directory, place, kind, adapter), threads)

    def search(
        self,
        sources: Ids,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
        record: Sequence[RecordedHead] = (),
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses for each source, best first."""
        check_supported(self, search, prefixes, constraints)
        limits = [search.limit(len(source)) for source in sources]
        if stop is not None:
            stop.check()  # CTranslate2 itself cannot be interrupted
        found = self._translate(sources, search, max(limits, default=0))
        for i, (limit, outputs) in enumerate(zip(limits, found, strict=True)):
            if limit == 0 or any(len(output.ids) > limit for output in outputs):  # another sentence has a higher limit
                if stop is not None:
                    stop.check()
                found[i] = self._translate([sources[i]], search, limit)[0]
        self._score_unfinished(sources, found)
        return [self._rank(outputs, search, limit) for outputs, limit in zip(found, limits, strict=True)]

    def _translate(self, sources: Ids, search: Search, limit: int) -> list[list[Output]]:
        """Translate with CTranslate2; outputs of `limit` tokens have no EOS token."""
        if limit == 0:
            return [[Output([], 0.0)] for _ in sources]
        penalty = search.length_penalty if search.beam > 1 else 0.0  # one hypothesis is not ranked: score by log P
        try:
            results = self.translator.translate_batch(
                [source_tokens(source) for source in sources],
                beam_size=search.beam,
                num_hypotheses=search.beam,
                length_penalty=penalty,
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=search.min_length,
                max_batch_size=CTRANSLATE2.preferred_batch,
                suppress_sequences=[[SPECIAL_NAMES[PAD]], [SPECIAL_NAMES[BOS]]],
                return_scores=True,
            )
        except (RuntimeError, ValueError, LookupError, ArithmeticError) as error:  # C++ exceptions via pybind11
            longest = max(map(len, sources))
            raise SearchError(
                f"CTranslate2 failed on {plural(len(sources), 'sentence')}, the longest of {plural(longest, 'token')}, "
                f"with at most {plural(limit, 'output token')} and beam {search.beam}: {error}; split long lines "
                "(split='auto'), or use the engine 'native' or 'torch'",
                code="engine_failed",
            ) from None
        return [
            [
                Output(
                    [self.ids[token] if token in self.ids else int(token) for token in tokens],
                    None if len(tokens) == limit else score * (len(tokens) + 1) ** penalty,
                )
                for tokens, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            for result in results
        ]

    def _score_unfinished(self, sources: Sequence[Sequence[int]], found: Sequence[Sequence[Output]]) -> None:
        """Rescore outputs that were truncated at the limit, with their EOS token, as the other engines do."""
        cut = [
            (source, output)
            for source, outputs in zip(sources, found, strict=True)
            for output in outputs
            if output.log_probability is None
        ]
        if not cut:
            return
        scored = self.translator.score_batch(
            [source_tokens(source) for source, _ in cut],
            [[SPECIAL_NAMES.get(i, str(i)) for i in output.ids] for _, output in cut],
            max_input_length=0,
            max_batch_size=CTRANSLATE2.preferred_batch,
        )
        for (_, output), result in zip(cut, scored, strict=True):
            output.log_probability = sum(result.log_probs)

    def _rank(self, outputs: Sequence[Output], search: Search, limit: int) -> list[Hypothesis]:
        """The best hypotheses by our score; as in the other engines, one as long as the limit counts as truncated."""
        ranked = []
        for output in outputs:
            length, total = len(output.ids), output.log_probability or 0.0
            ranked.append(Hypothesis(output.ids, total / search.normalizer(length + 1), total, length == limit))
        return sorted(ranked, key=lambda h: -h.score)[: search.n_best]


@dataclass
class Output:
    """The ids of a hypothesis and its log-probability; None while the EOS token is not scored."""

    ids: list[int]
    log_probability: float | None


def source_tokens(ids: Sequence[int]) -> list[str]:
    """The names of a source's tokens, EOS included."""
    return [*[SPECIAL_NAMES.get(i, str(i)) for i in ids], SPECIAL_NAMES[EOS]]
