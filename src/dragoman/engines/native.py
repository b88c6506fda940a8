"""The native CPU engine: the whole search in C (native/translate/), in int8 or float32, without PyTorch.

Sums have a fixed order, so a translation is bit-identical in any batch and with any number of threads.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, get_args

import numpy as np

from dragoman.arrays import concatenate
from dragoman.cpu import available_cores
from dragoman.engines.base import check_batch, check_ids, check_supported
from dragoman.engines.native_forced import (
    check_result,
    native_attention_maps,
    native_cross_maps,
    native_log_probabilities,
)
from dragoman.engines.native_layout import TranslationJob, Workers, recorded_integers
from dragoman.engines.native_model import NativeModel
from dragoman.engines.specs import NATIVE
from dragoman.errors import SearchError, ShapeError
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.sampling_keys import hypothesis_keys
from dragoman.search.types import NOT_FINITE, Ids, Mean, RecordedHead, Sampling, Search, StopFlag, output_limits
from dragoman.text.special_tokens import EOS
from dragoman.values import MAX_THREADS, plural

if TYPE_CHECKING:
    from dragoman.arrays import FloatArray, Int32Array
    from dragoman.engines.forced import AttentionKind, EncodedPairs
    from dragoman.search.constraints.tables import BatchConstraints

Batch = TypeVar("Batch")
MAX_BATCH_TOKENS: Final = 8192
MAX_TEAM: Final = 4  # threads that share the work of a single batch


class SearchInput(NamedTuple):
    """The input of a search; arrays of all its sources, each with its EOS token."""

    sources: Ids
    search: Search
    prefixes: Ids | None
    constraints: BatchConstraints | None
    stop: StopFlag | None
    record: Sequence[RecordedHead]
    ids: Int32Array  # of all sources, one after the other
    lengths: Int32Array
    ends: list[int]  # of the sources in `ids`
    limits: Int32Array


class NativeEngine:
    """A Transformer, or an ensemble of them, on the CPU. `search` may be called from several threads at once."""

    name = "native"
    capabilities = NATIVE

    def __init__(
        self, models: Sequence[NativeModel], threads: int, quantize: bool, mean: Mean = "probabilities"
    ) -> None:
        self.models, self.threads, self.mean = models, threads, mean
        self.code, self.recipe, self.vocabulary = models[0].code, models[0].recipe, models[0].vocabulary
        sizes = sorted({model.vocabulary for model in models})
        if len(sizes) != 1:
            found = " and ".join(f"{source:,} and {target:,}" for source, target in sizes)
            message = f"the models of an ensemble need the same vocabularies; these have {found} tokens"
            raise SearchError(message, code="vocabulary_mismatch")
        self.precision = "int8" if quantize else "float32"
        self.batch = NATIVE.preferred_batch * threads
        self.max_rows: int = self.code.batch_rows()  # hypotheses that a thread translates at a time
        self.free: list[Workers] = []  # idle workers, one for each model
        self.busy = 0
        self.lock = threading.Lock()

    @classmethod
    def load(
        cls,
        directory: Path,
        threads: int | None = None,
        quantize: bool = True,
        others: Sequence[Path] = (),
        mean: Mean = "probabilities",
        adapter: Path | None = None,
    ) -> NativeEngine | None:
        """Load the engine from verified model directories; None if it is not available for one of them here.

        `adapter` is a verified adapter of the first model.
        """
        threads = threads or default_threads()
        models: list[NativeModel] = []
        for path, changes in ((directory, adapter), *((other, None) for other in others)):
            model = NativeModel.load(path, threads, quantize, changes)
            if model is None:
                return None
            models.append(model)
        return cls(models, threads, quantize, mean)

    def search(
        self,
        sources: Ids,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
        record: Sequence[RecordedHead] = (),
    ) -> HypothesisTable:
        """Return the best hypotheses for each source, best first; threads take batches in turn."""
        check_supported(self, search, prefixes, constraints)
        # raise on input that would lead the C code outside its memory
        check_batch(sources, prefixes, constraints, self.vocabulary[1])
        ids, lengths = check_ids("source", sources, self.vocabulary[0])
        limits = output_limits(search, lengths)
        if prefixes is not None:
            limits = np.maximum(limits, np.fromiter(map(len, prefixes), np.int32, len(sources)))
        self.check_positions(int(max(limits.max(initial=0), lengths.max(initial=0))))
        given = SearchInput(
            sources,
            search,
            prefixes,
            constraints,
            stop,
            record,
            np.insert(ids, np.cumsum(lengths), EOS),
            lengths + 1,
            np.cumsum(lengths + 1).tolist(),
            limits.astype(np.int32),
        )
        found: dict[int, HypothesisTable] = {}  # by the first sentence of the batch

        def run(workers: Workers, batch: range, team: int) -> None:
            found[batch.start] = self._translate(workers, given, slice(batch.start, batch.stop), team)

        self.run_batches(list(self._batches(lengths.tolist(), search)), run)
        return HypothesisTable.join([found[first] for first in sorted(found)])

    def log_probabilities(
        self, pairs: EncodedPairs, batch: int | None = None, stop: StopFlag | None = None
    ) -> list[list[float]]:
        """The log-probability of each target token and of EOS; see `ForcedEngine`."""
        return native_log_probabilities(self, pairs, batch, stop)

    def cross_maps(self, pairs: EncodedPairs) -> Iterator[tuple[int, FloatArray]]:
        """The cross-attention of all heads; see `ForcedEngine`."""
        return native_cross_maps(self, pairs)

    def attention_maps(self, source: Sequence[int], target: Sequence[int]) -> dict[AttentionKind, FloatArray]:
        """The attention of all heads for one pair; see `ForcedEngine`."""
        return native_attention_maps(self, source, target)

    def run_batches(self, batches: Sequence[Batch], run: Callable[[Workers, Batch, int], None]) -> None:
        """Call `run(workers, batch, team)` for each batch; a team of threads shares a single one.

        Before each batch that the caller's thread takes, it starts helpers if fewer than all threads are busy with any
        call; before each of theirs, they end if more are, since another call has begun.
        """
        waiting, failed, helpers = deque(batches), list[BaseException](), list[threading.Thread]()

        def work(taken: Iterator[Batch], team: int = 1) -> None:
            try:
                self._work(taken, run, team)
            except BaseException as error:
                failed.append(error)
                with self.lock:
                    waiting.clear()  # the others stop once one has failed

        def taken_by_caller() -> Iterator[Batch]:
            while waiting:
                for _ in range(min(self.threads - self.busy, len(waiting) - 1)):
                    helper = threading.Thread(target=work, args=(taken_by_helper(),), daemon=True)
                    self.busy += 1
                    try:
                        helper.start()
                    except RuntimeError:  # the system allows no more threads: continue with fewer
                        self.busy -= 1
                        break
                    helpers.append(helper)
                yield waiting.popleft()

        def taken_by_helper() -> Iterator[Batch]:
            while waiting and self.busy <= self.threads:
                yield waiting.popleft()

        with self.lock:
            self.busy += 1
        try:
            work(taken_by_caller(), self.threads if len(batches) == 1 else 1)
            for helper in helpers:
                helper.join()
        except BaseException:  # Ctrl-C while waiting
            with self.lock:
                waiting.clear()
            raise
        if failed:
            raise failed[0]

    def check_positions(self, longest: int) -> None:
        """Raise if the model has no position for the longest row and its special token."""
        learned = [model.recipe.max_positions for model in self.models if model.recipe.positions == "learned"]
        if learned and longest >= min(learned):
            raise ShapeError(
                f"a sentence may reach {longest + 1} tokens, but positions were learned for {min(learned)}; use "
                "shorter sentences, or a smaller max_length",
                code="text_too_long",
            )

    def _batches(self, lengths: Sequence[int], search: Search) -> Iterator[range]:
        """Ranges of neighboring sentences: equal shares for all threads, in batches that fit the caches."""
        n = len(lengths)
        rounds = max(1, -(-n // (self.threads * max(1, self.max_rows // search.beam))))  # of all threads
        max_sentences = max(1, -(-n // (self.threads * rounds)))
        first = 0
        while first < n:
            last, tokens = first + 1, lengths[first] + 1
            while last < min(n, first + max_sentences) and tokens + lengths[last] < MAX_BATCH_TOKENS:
                tokens += lengths[last] + 1
                last += 1
            yield range(first, last)
            first = last

    def _work(self, batches: Iterator[Batch], run: Callable[[Workers, Batch, int], None], team: int) -> None:
        """Run batches, which are taken under the lock, until none are left; this thread is among the busy ones."""
        workers: Workers | None = None
        try:
            with self.lock:
                if self.free:
                    workers = self.free.pop()
                else:
                    workers = (ctypes.c_void_p * len(self.models))(*[model.new_worker() for model in self.models])
                team = min(team, MAX_TEAM) if self.busy == 1 else 1  # do not let spinning threads slow down others
            while True:
                with self.lock:
                    batch = next(batches, None)
                if batch is None:
                    return
                run(workers, batch, team)
        finally:
            with self.lock:
                self.busy -= 1
                if workers is not None:
                    self.free.append(workers)

    def _translate(self, workers: Workers, given: SearchInput, part: slice, team: int) -> HypothesisTable:
        """The hypotheses of a batch."""
        search, record, stop = given.search, given.record, given.stop
        source_lengths, limits = given.lengths[part], given.limits[part]
        source = given.ids[given.ends[part.start] - int(source_lengths[0]) :]
        prefixes = None if given.prefixes is None else given.prefixes[part]
        constraints = None if given.constraints is None else given.constraints[part]
        n, rows, longest = len(limits), max(int(limits.max()), 1), int(source_lengths.max())
        tokens = np.empty((n, search.n_best, rows), np.int32)
        lengths = np.empty((n, search.n_best), np.int32)
        scores, totals = np.empty_like(lengths, np.float32), np.empty_like(lengths, np.float32)
        forced, forced_lengths = concatenate(prefixes) if prefixes is not None else (None, None)
        normalizers = np.array([search.normalizer(length) for length in range(rows + 2)], np.float32)
        maps = np.empty((n, search.n_best, len(record), rows + 1, longest), np.float32) if record else None
        sampling, keys, beam = search.sampling or Sampling(), None, search.beam
        if search.sampling is not None:
            keys, beam = hypothesis_keys(given.sources[part], sampling.seed, search.n_best), search.n_best
        automata = None
        if constraints is not None and any(constraints):
            from dragoman.engines.native_constraints import BatchAutomata  # few searches have any

            automata = BatchAutomata(constraints)
        job = TranslationJob(
            n, beam, search.n_best, search.min_length, search.no_repeat, rows, team,
            *[None if a is None else a.ctypes.data for a in (
                source, source_lengths, limits, forced, forced_lengths, normalizers, tokens, lengths, scores, totals)],
            len(self.models), get_args(Mean).index(self.mean), ctypes.addressof(workers),
            keys is not None, min(sampling.top_k, self.vocabulary[1]), sampling.temperature, sampling.top_p,
            None if keys is None else keys.ctypes.data,
            len(record), recorded_integers([head.layer for head in record]),
            recorded_integers([-1 if head.head is None else head.head for head in record]),
            longest, None if maps is None else maps.ctypes.data,
            *((None, None) if automata is None else automata.addresses),
            None if stop is None else ctypes.addressof(stop.value),
        )  # fmt: skip
        failed = self.code.translate(ctypes.c_void_p(workers[0]), ctypes.byref(job))
        if stop is not None:
            stop.check()
        check_result(failed, f"translate {plural(n, 'sentence')} of up to {plural(longest, 'token')}")
        if (lengths[:, 0] < 0).any():
            raise SearchError(NOT_FINITE, code="not_finite")
        found = HypothesisTable.from_padded(tokens, lengths, scores, totals, limits)
        if maps is None:
            return found
        there = np.argwhere(lengths >= 0).tolist()
        of_each = [maps[i, rank, :, : lengths[i, rank] + 1, : source_lengths[i]].copy() for i, rank in there]
        return replace(found, maps=of_each)

    def __del__(self) -> None:
        """Free the memory of the C side."""
        for workers in getattr(self, "free", ()):
            for worker in workers:
                self.code.worker_free(ctypes.c_void_p(worker))


def default_threads() -> int:
    """OMP_NUM_THREADS if it is a number of threads, else the number of available CPUs."""
    value = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list has one number per nesting level
    number = int(value) if value.isdecimal() and len(value) < 5 else 0
    return number if 0 < number <= MAX_THREADS else available_cores()
