"""The native CPU engine: the whole search in C (native/translate/), in int8 or float32, without PyTorch.

Sums have a fixed order, so a translation is bit-identical in any batch and with any number of threads.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from dragoman.config import ModelRecipe, Recipe
from dragoman.cpu import available_cores
from dragoman.engines import native_layout
from dragoman.engines.base import check_supported
from dragoman.engines.native_forced import check_result, concatenate, forced_cross_maps, forced_log_probabilities
from dragoman.engines.native_layout import (
    STRUCTURES,
    ModelConfig,
    TranslationJob,
    recorded_integers,
    unsupported_by_native,
)
from dragoman.engines.specs import NATIVE
from dragoman.errors import DamagedError, SearchError, ShapeError
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import INFO, RECIPE
from dragoman.modeldir.weights import EMBEDDING_TABLES, Weights, check_tensors, read_weights, tensor_layout
from dragoman.native import library
from dragoman.search.types import NOT_FINITE, Hypothesis, Ids, RecordedHead, Search, StopFlag
from dragoman.text.special_tokens import EOS
from dragoman.values import MAX_THREADS, plural

if TYPE_CHECKING:
    from dragoman.arrays import FloatArray
    from dragoman.engines.forced import EncodedPairs
    from dragoman.search.constraints.tables import BatchConstraints

Batch = TypeVar("Batch")
Found = list[list[Hypothesis]]  # per source, best first
MAX_ROWS: Final = 128  # hypotheses per thread at a time; neither twice nor half as many are faster
MAX_BATCH_TOKENS: Final = 8192
MAX_TEAM: Final = 4  # threads that share the work of a single batch


class NativeEngine:
    """A Transformer on the CPU. `search` may be called from several threads at once."""

    name = "native"
    capabilities = NATIVE

    def __init__(
        self,
        code: ctypes.CDLL,
        recipe: ModelRecipe,
        vocabulary: tuple[int, int],
        weights: Weights,
        threads: int,
        quantize: bool,
    ) -> None:
        self.code, self.recipe, self.vocabulary, self.threads = code, recipe, vocabulary, threads
        self.precision = "int8" if quantize else "float32"
        self.batch = NATIVE.preferred_batch * threads
        self.weights = weights  # the C side reads the tables of embeddings and positions
        shapes = {name: w.shape for name, w in weights.items()}
        check_tensors(weights.path, shapes, (tensor for tensor in tensor_layout(recipe, vocabulary) if tensor))
        addresses = [tensor and weights[tensor[0]].ctypes.data for tensor in tensor_layout(recipe, vocabulary)]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        shape = ModelConfig(
            recipe.d_model, recipe.n_heads, recipe.key_size, recipe.value_size, recipe.d_ff,
            recipe.encoder_layers, recipe.decoder_layers, *vocabulary,
            native_layout.ACTIVATION_CODES[recipe.activation], native_layout.POSITION_CODES[recipe.positions],
            recipe.max_positions, recipe.norm_order == "pre", quantize, threads, recipe.max_distance,
            recipe.norm_epsilon,
        )  # fmt: skip
        self.model = ctypes.c_void_p(code.model_new(ctypes.byref(shape), pointers))
        if not self.model:
            raise MemoryError("not enough memory for the model's packed weights")
        weights.keep_only(
            [f"embeddings.tables.{name}" for name in EMBEDDING_TABLES[recipe.tie][:2]]
            + [f"{side}_positions.table" for side in ("source", "target")]
        )
        self.free: list[ctypes.c_void_p] = []  # idle workers
        self.busy = 0
        self.lock = threading.Lock()

    @classmethod
    def load(cls, directory: Path, threads: int | None = None, quantize: bool = True) -> NativeEngine | None:
        """Load the engine from a verified model directory; None if it is not available for this model here."""
        recipe = Recipe.load(directory / RECIPE).model
        code = load_code() if unsupported_by_native(recipe) is None else None
        weights = read_weights(directory) if code is not None else None
        if code is None or weights is None:
            return None
        for name in ("model_new", "worker_new"):
            getattr(code, name).restype = ctypes.c_void_p
        vocabulary = read_info(directory).vocabulary_sizes
        if min(vocabulary) <= EOS:
            raise DamagedError(
                f"{directory / INFO} has a vocabulary of {min(vocabulary)}, too small for the {EOS + 1} special "
                "tokens; restore it from a copy",
                code="file_damaged",
            )
        return cls(code, recipe, vocabulary, weights, threads or default_threads(), quantize)

    def search(
        self,
        sources: Ids,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
        record: Sequence[RecordedHead] = (),
    ) -> list[list[Hypothesis]]:
        """Return the best hypotheses for each source, best first; threads take batches in turn."""
        check_supported(self, search, prefixes, constraints)
        self._check(sources, search, prefixes)
        found: Found = [[] for _ in sources]

        def run(worker: ctypes.c_void_p, batch: range, team: int) -> None:
            part = slice(batch.start, batch.stop)
            begins = None if prefixes is None else prefixes[part]
            found[part] = self._translate(worker, sources[part], search, begins, team, stop, record)

        self.run_batches(list(self._batches(sources, search)), run)
        return found

    def log_probabilities(self, pairs: EncodedPairs, batch: int | None = None) -> list[list[float]]:
        """The log-probability of each target token and of EOS; see `ForcedEngine`."""
        return forced_log_probabilities(self, pairs, batch)

    def cross_maps(self, pairs: EncodedPairs) -> Iterator[tuple[int, FloatArray]]:
        """The cross-attention of all heads; see `ForcedEngine`."""
        return forced_cross_maps(self, pairs)

    def run_batches(self, batches: Sequence[Batch], run: Callable[[ctypes.c_void_p, Batch, int], None]) -> None:
        """Call `run(worker, batch, team)` for each batch; threads take batches in turn, a team shares a single one."""
        if len(batches) == 1:
            self._work(iter(batches), run, self.threads)
            return
        failed: list[BaseException] = []
        queue = takewhile(lambda _: not failed, batches)  # the others stop once one has failed

        def work() -> None:
            try:
                self._work(queue, run, 1)
            except BaseException as error:
                failed.append(error)

        others: list[threading.Thread] = []
        try:
            while len(others) < min(self.threads, len(batches)) - 1:
                thread = threading.Thread(target=work, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system allows no more threads: continue with fewer
                    break
                others.append(thread)
            work()
            for thread in others:
                thread.join()
        except BaseException as error:  # Ctrl-C while waiting
            failed.append(error)
            raise
        if failed:
            raise failed[0]

    def _check(self, sources: Ids, search: Search, prefixes: Ids | None) -> None:
        """Raise on input that would lead the C code outside its memory."""
        if prefixes is not None and len(prefixes) != len(sources):
            counts = f"{plural(len(prefixes), 'prefix', 'prefixes')} for {plural(len(sources), 'source')}"
            raise ShapeError(f"got {counts}; give one for each", code="count_mismatch")
        limits = [search.limit(len(source)) for source in sources]
        self.check_positions(max([*limits, *map(len, prefixes or ()), *map(len, sources)], default=0))
        self.check_ids("source", sources, self.vocabulary[0])
        self.check_ids("prefix", prefixes or (), self.vocabulary[1])

    def check_positions(self, longest: int) -> None:
        """Raise if the model has no position for the longest row and its special token."""
        if self.recipe.positions == "learned" and longest >= self.recipe.max_positions:
            raise ShapeError(
                f"a sentence may reach {longest + 1} tokens, but positions were learned for "
                f"{self.recipe.max_positions}; use shorter sentences, or a smaller max_length",
                code="text_too_long",
            )

    @staticmethod
    def check_ids(what: str, rows: Ids, size: int) -> None:
        """Raise if an id is not in a vocabulary of this size."""
        for wrong in (token for row in rows for token in (min(row, default=0), max(row, default=0))):
            if not 0 <= wrong < size:
                message = f"a {what} has the id {wrong}; the vocabulary has {size} tokens: ids 0 to {size - 1}"
                raise ShapeError(message, code="unknown_id")

    def _batches(self, sources: Ids, search: Search) -> Iterator[range]:
        """Ranges of neighboring sentences: an equal share for each thread, in batches that fit the caches."""
        n = len(sources)
        shares = -(-n // self.threads)
        max_sentences = max(1, min(shares, MAX_ROWS // search.beam))
        first = 0
        while first < n:
            last, tokens = first + 1, len(sources[first]) + 1
            while last < min(n, first + max_sentences) and tokens + len(sources[last]) < MAX_BATCH_TOKENS:
                tokens += len(sources[last]) + 1
                last += 1
            yield range(first, last)
            first = last

    def _work(self, batches: Iterator[Batch], run: Callable[[ctypes.c_void_p, Batch, int], None], team: int) -> None:
        """Run batches until none are left."""
        with self.lock:
            worker = self.free.pop() if self.free else ctypes.c_void_p(self.code.worker_new(self.model))
            if not worker:
                raise MemoryError("not enough memory for one more translating thread")
            self.busy += 1
            team = min(team, MAX_TEAM) if self.busy == 1 else 1  # do not let spinning threads slow down others
        try:
            while True:
                with self.lock:
                    batch = next(batches, None)
                if batch is None:
                    return
                run(worker, batch, team)
        finally:
            with self.lock:
                self.busy -= 1
                self.free.append(worker)

    def _translate(
        self,
        worker: ctypes.c_void_p,
        sources: Ids,
        search: Search,
        prefixes: Ids | None,
        team: int,
        stop: StopFlag | None,
        record: Sequence[RecordedHead],
    ) -> Found:
        n = len(sources)
        limits = np.array([search.limit(len(source)) for source in sources], np.int32)
        if prefixes is not None:
            limits = np.maximum(limits, np.array([len(prefix) for prefix in prefixes], np.int32))
        rows = max(int(limits.max()), 1)
        tokens = np.empty((n, search.n_best, rows), np.int32)
        lengths = np.empty((n, search.n_best), np.int32)
        scores, totals = np.empty_like(lengths, np.float32), np.empty_like(lengths, np.float32)
        flat, source_lengths = concatenate([[*source, EOS] for source in sources])
        forced, forced_lengths = concatenate(prefixes) if prefixes is not None else (None, None)
        normalizers = np.array([search.normalizer(length) for length in range(rows + 2)], np.float32)
        longest = int(source_lengths.max())
        maps = np.empty((n, search.n_best, len(record), rows + 1, longest), np.float32) if record else None
        job = TranslationJob(
            n, search.beam, search.n_best, search.min_length, search.no_repeat, rows, team,
            *[None if a is None else a.ctypes.data for a in (
                flat, source_lengths, limits, forced, forced_lengths, normalizers, tokens, lengths, scores, totals)],
            len(record), recorded_integers([head.layer for head in record]),
            recorded_integers([-1 if head.head is None else head.head for head in record]),
            longest, None if maps is None else maps.ctypes.data,
            None if stop is None else ctypes.addressof(stop.value),
        )  # fmt: skip
        failed = self.code.translate(worker, ctypes.byref(job))
        if stop is not None:
            stop.check()
        check_result(failed, f"translate {plural(n, 'sentence')} of up to {plural(longest, 'token')}")
        if (lengths[:, 0] < 0).any():
            raise SearchError(NOT_FINITE, code="not_finite")
        columns = (tokens.tolist(), lengths.tolist(), scores.tolist(), totals.tolist(), limits.tolist())
        found = [
            [
                Hypothesis(row[:length], score, total, length == limit)
                for row, length, score, total in zip(of_tokens, of_lengths, of_scores, of_totals, strict=True)
                if length >= 0
            ]
            for of_tokens, of_lengths, of_scores, of_totals, limit in zip(*columns, strict=True)
        ]
        if maps is None:
            return found
        return [
            [
                replace(one, maps=maps[i, rank, :, : len(one.ids) + 1, : source_lengths[i]].copy())
                for rank, one in enumerate(hypotheses)
            ]
            for i, hypotheses in enumerate(found)
        ]

    def __del__(self) -> None:
        """Free the memory of the C side."""
        for worker in getattr(self, "free", ()):
            self.code.worker_free(worker)
        if getattr(self, "model", None):
            self.code.model_free(self.model)


def load_code() -> ctypes.CDLL | None:
    """The library, built without tiles if the system denies them: a thread's signal stack may be too small."""
    code = library("translate", structures=STRUCTURES)
    if code is None or code.request_tiles() == 0:
        return code
    return library("translate", "-mno-amx-int8", structures=STRUCTURES)


def default_threads() -> int:
    """OMP_NUM_THREADS if it is a number of threads, else the number of available CPUs."""
    value = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list has one number per nesting level
    number = int(value) if value.isdecimal() and len(value) < 5 else 0
    return number if 0 < number <= MAX_THREADS else available_cores()
