"""The streaming pipeline: windows of texts, parts of texts, batches of sentences, search, assembly.

A window of texts is searched in a separate thread, while the previous one is assembled and the next one is encoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from dragoman.engines.base import Engine, EngineRequest, QueuedEngine, SearchCall
from dragoman.engines.forced import attention_layer, select_head
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import TYPICAL_TOKENS, WINDOW_BATCHES, Hypothesis, RecordedHead, Search, StopFlag
from dragoman.translation.assembly import Assembly
from dragoman.translation.options import TranslationRequest
from dragoman.translation.overlap import blocks_of, overlap
from dragoman.translation.result import Translation, join_translations
from dragoman.translation.segmentation import WHOLE, Ids
from dragoman.translation.text_windows import SentenceJob, TextWindow, WindowBuilder

if TYPE_CHECKING:
    from dragoman.search.constraints.phrases import Constraints
    from dragoman.search.constraints.tables import ConstraintTables
    from dragoman.text.trees.dependency import TreeAligner
    from dragoman.translation.translator import Translator

ASSEMBLED_TEXTS: Final = 512
LONG_STREAM_WINDOWS: Final = 2  # texts that fill more windows are worth a second copy of the model
MAX_WIDENINGS: Final = 2  # times that the beam is doubled to fill up an n-best list
T = TypeVar("T")
Tables = Mapping["Constraints", "ConstraintTables"]  # of a window
Maps = dict[tuple[Ids, Ids], Any]  # by source and output


class WindowHypotheses(NamedTuple):
    """The hypotheses of each job, best first, and their attention and alignment weights, if requested."""

    hypotheses: HypothesisTable
    attention: Maps | None
    alignment: Maps | None


def batches(lengths: Sequence[int], batch: int) -> Iterator[slice]:
    """Sources, longest first, in groups of at most `batch` of typical length, or fewer that are longer."""
    start = 0
    while start < len(lengths):
        size = max(1, min(batch, batch * TYPICAL_TOKENS // max(1, lengths[start])))
        yield slice(start, start + size)
        start += size


def translate_stream(
    translator: Translator, texts: Iterable[str], request: TranslationRequest
) -> Iterator[Translation]:
    """Translate texts in order; the engine is loaded when the first translation is taken."""
    yield from Pipeline(translator, request).run(texts)


class Pipeline:
    """Translate a stream of texts for one request, in order and with bounded memory."""

    def __init__(self, translator: Translator, request: TranslationRequest) -> None:
        self.translator, self.request = translator, request
        self.engine = translator.engines.for_request(EngineRequest(request.search, request.prefix is not None))
        self.builder = WindowBuilder(translator, request, (request.batch or self.engine.batch) * WINDOW_BATCHES)
        self.stop = request.stop or StopFlag()
        self.n_searched = 0  # jobs
        self.in_process = Lock()  # of engines in this process: they search one window after the other

    def run(self, texts: Iterable[str]) -> Iterator[Translation]:
        """The translation of each text; texts before an invalid one are translated before the error is raised."""
        prepared = self.builder.build(blocks_of(texts))
        if self.request.stop is not None:  # the caller's thread may have other work between the steps of a search
            searched: Iterator[tuple[TextWindow, WindowHypotheses]] = (
                (one, self.search(one)) for one in prepared if one is not None
            )
        else:
            threads = 2 if self.translator.engines.separable(self.engine) else 1  # the next window is queued as well
            searched = overlap(prepared, self.search, self.stop.set, threads)
        for window, found in searched:
            yield from self.assemble(window, found)

    def search(self, window: TextWindow) -> WindowHypotheses:
        """The hypotheses of all jobs."""
        separate = self._separate_engine(len(window.jobs))
        with self.in_process if separate is None else nullcontext():
            return self._search(window, separate or self.engine)

    def _separate_engine(self, n_jobs: int) -> Engine | None:
        """The engine in a process of its own, once it is ready; it is started for a stream that fills several windows.

        Anything shorter is translated before a second copy of the model would be loaded.
        """
        if self.request.stop is not None:
            return None
        self.n_searched += n_jobs
        start = self.n_searched > LONG_STREAM_WINDOWS * self.builder.max_texts
        return self.translator.engines.separate(self.engine, start)

    def _search(self, window: TextWindow, engine: Engine) -> WindowHypotheses:
        request, jobs, tables = self.request, window.jobs, window.tables
        constrained = [] if request.constraints is None else [i for i, job in enumerate(jobs) if job.constraints]
        if not constrained:
            hypotheses = self._distinct_hypotheses(jobs, engine, tables)
        else:
            free = [i for i, job in enumerate(jobs) if not job.constraints]
            asked = EngineRequest(request.search, request.prefix is not None, constraints=True)
            other = self.translator.engines.for_request(asked)
            searches = ((free, engine), (constrained, other))
            found = [self._distinct_hypotheses([jobs[i] for i in chosen], one, tables) for chosen, one in searches]
            hypotheses = HypothesisTable.join(found).take(np.argsort([*free, *constrained]))
        return WindowHypotheses(hypotheses, *self._attention(jobs, hypotheses))

    def assemble(self, window: TextWindow, found: WindowHypotheses) -> Iterator[Translation]:
        """The translations of the texts of a window, a few at a time: they are used while in the caches."""
        translator = self.translator
        assembly = Assembly(
            translator.source,
            translator.target,
            found.attention,
            found.alignment,
            translator.n_language_tokens,
            translator.lengths,
        )
        texts = iter(zip(window.layouts, window.segments, strict=True))
        while here := [*islice(texts, ASSEMBLED_TEXTS)]:
            numbers = [*{i for _, of_text in here for i in of_text}]
            jobs = [window.jobs[i] for i in numbers]
            constraints = None if self.request.constraints is None else [job.constraints for job in jobs]
            made = assembly.translations([job.source for job in jobs], found.hypotheses.take(numbers), constraints)
            by_number = dict(zip(numbers, made, strict=True))
            for layout, of_text in here:
                whole = layout is WHOLE  # nearly every text
                yield by_number[of_text[0]] if whole else join_translations(layout, [by_number[i] for i in of_text])

    @cached_property
    def recorded(self) -> list[RecordedHead]:
        """The cross-attention that the request needs: for its attention, then for its alignment."""
        found: list[RecordedHead] = []
        if self.request.attention:
            n_layers, _ = self.translator.engines.recipe.cross_attention_shape
            found.append(RecordedHead(attention_layer(n_layers), None))
        if self.request.alignment:
            found += self.translator.alignment_attention.recorded
        return found

    def _attention(self, jobs: Sequence[SentenceJob], found: HypothesisTable) -> tuple[Maps | None, Maps | None]:
        """The attention and the alignment weights of each hypothesis, if requested.

        They come from the search, or from one forced pass for the hypotheses of engines that record none.
        """
        request = self.request
        attention: Maps | None = {} if request.attention else None
        alignment: Maps | None = {} if request.alignment else None
        if not self.recorded:
            return None, None
        n_aligning = len(self.translator.alignment_attention.recorded) if request.alignment else 0

        def add(pair: tuple[Ids, Ids], maps: Sequence[Any]) -> None:
            if attention is not None:
                attention[pair] = maps[0][:-1, :-1].copy()
            if alignment is not None:
                alignment[pair] = self.translator.alignment_attention.mix(maps[len(maps) - n_aligning :])

        missing: set[tuple[Ids, Ids]] = set()
        for job, hypotheses in zip(jobs, found, strict=True):
            for one in hypotheses:
                if one.maps is None:
                    missing.add((job.source, tuple(one.ids)))
                else:
                    add((job.source, tuple(one.ids)), one.maps)
        pairs = sorted(missing)
        for i, weights in self.translator.engines.forced().cross_maps(pairs) if pairs else ():
            self.stop.check()
            add(pairs[i], [select_head(weights, head) for head in self.recorded])
        return attention, alignment

    def _distinct_hypotheses(self, jobs: Sequence[SentenceJob], engine: Engine, tables: Tables) -> HypothesisTable:
        """The hypotheses of each job, best first, no two with the same text.

        The best of several hypotheses with the same text is kept. If too few texts are left for the n-best list, a
        wider beam fills it up.
        """
        search = self.request.search
        if search.n_best == 1 or search.sampling is not None:
            return self._batches(jobs, engine, search, tables)
        found = [*map(self._distinct, self._batches(jobs, engine, replace(search, n_best=search.beam), tables))]
        for _ in range(MAX_WIDENINGS):
            beam = min(2 * search.beam, engine.capabilities.max_beam, self.translator.target.vocabulary_size)
            short = [i for i, hypotheses in enumerate(found) if len(hypotheses) < search.n_best]
            if not short or beam == search.beam:
                break
            search = replace(search, beam=beam)
            more = self._batches([jobs[i] for i in short], engine, replace(search, n_best=beam), tables)
            for i, hypotheses in zip(short, more, strict=True):
                found[i] = self._distinct([*found[i], *hypotheses])
        return HypothesisTable.from_lists([hypotheses[: search.n_best] for hypotheses in found])

    def _distinct(self, hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
        """The best hypothesis of each text, best first."""
        ranked = sorted(hypotheses, key=lambda one: -one.score)
        best: dict[str, Hypothesis] = {}
        for one, text in zip(ranked, self.translator.target.decode_many([one.ids for one in ranked]), strict=True):
            best.setdefault(text.strip(), one)
        return [*best.values()]

    def _batches(self, jobs: Sequence[SentenceJob], engine: Engine, search: Search, tables: Tables) -> HypothesisTable:
        """What an engine finds for each job, in batches of similar length; the jobs are sorted by length."""
        request, order = self.request, list[int]()
        size = request.batch or engine.batch
        if engine.capabilities.batch_invariant:
            size = request.batch or len(jobs)  # its threads never wait for each other
        elif request.reproducible:
            size = 1

        def calls() -> Iterator[SearchCall]:
            for n_parts in sorted({job.n_parts for job in jobs}):
                chosen = [i for i, job in enumerate(jobs) if job.n_parts == n_parts]
                for part in batches([len(jobs[i].source) for i in chosen], size):
                    self.stop.check()
                    order.extend(chosen[part])
                    group = [jobs[i] for i in chosen[part]]
                    yield SearchCall(
                        [job.source for job in group],
                        search.for_part(n_parts),
                        [job.prefix for job in group] if request.prefix is not None else None,
                        [tables[job.constraints] for job in group] if group[0].constraints else None,
                        self.stop,
                        self.recorded if engine.capabilities.records_attention else (),
                    )

        if isinstance(engine, QueuedEngine):
            found = engine.search_all(calls())
        else:
            found = [HypothesisTable.from_lists(self._search_batch(engine, call)) for call in calls()]
        joined = HypothesisTable.join(found)
        return joined if len(found) == 1 else joined.take(np.argsort(order))

    def _search_batch(self, engine: Engine, call: SearchCall) -> Sequence[list[Hypothesis]]:
        with nullcontext() if engine.capabilities.batch_invariant else self.translator.engines.search_lock:
            return engine.search(*call)


def with_all_trees_used(results: Iterator[T], trees: TreeAligner) -> Iterator[T]:
    """The results; raise at their end if trees are left over."""
    yield from results
    trees.check_finished()
