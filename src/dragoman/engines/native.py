"""The engine of our own for CPUs: the whole search in C (native/translate/), in eight bits or in float.

PyTorch is not imported. Sums have a fixed order, so that a sentence's translation is the same to the last bit in any
company and with any number of threads.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Final

import numpy as np

from dragoman.arrays import Int32Array
from dragoman.config import ModelRecipe, Recipe
from dragoman.cpu import available_cores
from dragoman.engines.native_layout import ACTIVATIONS, POSITIONS, STRUCTURES, ModelConfig, TranslationJob, unknown
from dragoman.errors import DamagedError, SearchError, ShapeError
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import INFO, RECIPE
from dragoman.modeldir.weights import Weights, check_tensors, map_weights, tensor_layout
from dragoman.native import library
from dragoman.search.types import MOST_THREADS, NO_NUMBERS, Hypothesis, Search
from dragoman.text.special_tokens import EOS

MOST_ROWS: Final = 128  # hypotheses that one thread carries at once; with twice or half as many it is no quicker
MOST_TOKENS: Final = 8192
MOST_BEAMS: Final = 64
TILES_REFUSED: Final = -2  # as native/translate/translate.h says it
MOST_TEAM: Final = 4  # threads that share the work of a single batch


class NativeEngine:
    """A Transformer on the CPU. `search` may be called from several threads at once."""

    name = "native"
    independent = True  # of what else is in the batch

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
        self.batch = 64 * threads
        self.weights = weights  # embeddings are read from the file itself, which must stay mapped
        shapes = {name: w.shape for name, w in weights.items()}
        check_tensors(weights.path, shapes, (tensor for tensor in tensor_layout(recipe, vocabulary) if tensor))
        addresses = [tensor and weights[tensor[0]].ctypes.data for tensor in tensor_layout(recipe, vocabulary)]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        shape = ModelConfig(
            recipe.d_model, recipe.n_heads, recipe.key_size, recipe.value_size, recipe.d_ff,
            recipe.encoder_layers, recipe.decoder_layers, *vocabulary, ACTIVATIONS[recipe.activation],
            POSITIONS[recipe.positions], recipe.max_positions, recipe.norm_order == "pre", quantize, threads,
            recipe.max_distance, recipe.norm_epsilon,
        )  # fmt: skip
        self.model = ctypes.c_void_p(code.model_new(ctypes.byref(shape), pointers))
        if not self.model:
            raise MemoryError("there is no memory for the model's packed weights")
        weights.release_memory()
        self.free: list[ctypes.c_void_p] = []  # workers that nobody uses
        self.busy = 0
        self.lock = threading.Lock()

    @classmethod
    def load(cls, directory: Path, threads: int | None = None, quantize: bool = True) -> NativeEngine | None:
        """The engine of a model directory that has been verified; None where it cannot be had for this model here."""
        recipe = Recipe.load(directory / RECIPE).model
        code = working_code() if unknown(recipe) is None else None
        weights = map_weights(directory) if code is not None else None
        if code is None or weights is None:
            return None
        for name in ("model_new", "worker_new"):
            getattr(code, name).restype = ctypes.c_void_p
        vocabulary = read_info(directory).vocabulary_sizes
        if min(vocabulary) <= EOS:
            raise DamagedError(
                f"{directory / INFO} has a vocabulary of {min(vocabulary)}, which does not even hold the {EOS + 1} "
                "marks; restore it from a copy"
            )
        return cls(code, recipe, vocabulary, weights, threads or usual_threads(), quantize)

    def can(self, search: Search, prefixes: bool = False) -> bool:
        """Every search but sampling and very wide beams."""
        return search.sampling is None and search.beam <= MOST_BEAMS

    def search(
        self, sources: Sequence[Sequence[int]], search: Search, prefixes: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first; batches are shared out among the threads."""
        if not self.can(search):
            raise SearchError("the engine 'native' does not do this search; ask `can` first, and use 'torch'")
        self._check(sources, search, prefixes)
        batches = list(self._batches(sources, search))
        found: list[list[Hypothesis]] = [[] for _ in sources]
        if len(batches) == 1:
            self._work(iter(batches), sources, search, prefixes, found, self.threads)
            return found
        failed: list[BaseException] = []
        queue = takewhile(lambda _: not failed, batches)  # once one has failed, the others stop as well

        def work() -> None:
            try:
                self._work(queue, sources, search, prefixes, found, 1)
            except BaseException as error:
                failed.append(error)

        others: list[threading.Thread] = []
        try:
            while len(others) < min(self.threads, len(batches)) - 1:
                thread = threading.Thread(target=work, daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system gives no more threads: those that there are do it all
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
        return found

    def _check(
        self, sources: Sequence[Sequence[int]], search: Search, prefixes: Sequence[Sequence[int]] | None
    ) -> None:
        """C believes what it is told: refuse what would lead it outside its memory."""
        if prefixes is not None and len(prefixes) != len(sources):
            raise ShapeError(f"{len(prefixes)} prefixes came for {len(sources)} sources; give one for each")
        limits = [search.limit(len(source)) for source in sources]
        longest = max([*limits, *map(len, prefixes or ())], default=0)
        reached = max([longest, *map(len, sources)]) + 1
        if self.recipe.positions == "learned" and sources and reached > self.recipe.max_positions:
            raise ShapeError(
                f"a sentence of up to {reached} tokens came, but positions were learned for "
                f"{self.recipe.max_positions}; use shorter sentences, or a smaller max_length"
            )
        for what, rows, size in zip(("source", "prefix"), (sources, prefixes or ()), self.vocabulary, strict=True):
            for wrong in (token for row in rows for token in (min(row, default=0), max(row, default=0))):
                if not 0 <= wrong < size:
                    raise ShapeError(f"a {what} has the id {wrong}, but the vocabulary has {size} tokens")

    def _batches(self, sources: Sequence[Sequence[int]], search: Search) -> Iterator[range]:
        """Neighbors together: an equal share for each thread, in batches that fit the caches."""
        n = len(sources)
        shares = -(-n // self.threads)
        most = max(1, min(shares, MOST_ROWS // search.beam))
        first = 0
        while first < n:
            last, tokens = first, 0
            while last < n and last - first < most and (last == first or tokens + len(sources[last]) < MOST_TOKENS):
                tokens += len(sources[last]) + 1
                last += 1
            yield range(first, last)
            first = last

    def _work(
        self,
        batches: Iterator[range],
        sources: Sequence[Sequence[int]],
        search: Search,
        prefixes: Sequence[Sequence[int]] | None,
        found: list[list[Hypothesis]],
        team: int,
    ) -> None:
        """Take batches until there are none."""
        with self.lock:
            worker = self.free.pop() if self.free else ctypes.c_void_p(self.code.worker_new(self.model))
            if not worker:
                raise MemoryError("there is no memory for one more thread that translates")
            self.busy += 1
            team = min(team, MOST_TEAM) if self.busy == 1 else 1  # threads that spin must not stand in others' way
        try:
            while True:
                with self.lock:
                    batch = next(batches, None)
                if batch is None:
                    return
                begins = None if prefixes is None else [prefixes[i] for i in batch]
                for i, best in zip(
                    batch, self._translate(worker, [sources[i] for i in batch], search, begins, team), strict=True
                ):
                    found[i] = best
        finally:
            with self.lock:
                self.busy -= 1
                self.free.append(worker)

    def _translate(
        self,
        worker: ctypes.c_void_p,
        sources: list[Sequence[int]],
        search: Search,
        prefixes: list[Sequence[int]] | None,
        team: int,
    ) -> list[list[Hypothesis]]:
        n = len(sources)
        limits = np.array([search.limit(len(source)) for source in sources], np.int32)
        if prefixes is not None:
            limits = np.maximum(limits, np.array([len(prefix) for prefix in prefixes], np.int32))
        longest = int(limits.max())
        rows = max(longest, 1)
        tokens = np.empty((n, search.n_best, rows), np.int32)
        lengths = np.empty((n, search.n_best), np.int32)
        scores, totals = np.empty_like(lengths, np.float32), np.empty_like(lengths, np.float32)
        flat, source_lengths = end_to_end([[*source, EOS] for source in sources])
        forced, forced_lengths = end_to_end(prefixes) if prefixes is not None else (None, None)
        normalizers = np.array([search.normalizer(length) for length in range(rows + 2)], np.float32)
        job = TranslationJob(
            n, search.beam, search.n_best, search.min_length, search.no_repeat, rows, team,
            *[None if a is None else a.ctypes.data for a in (
                flat, source_lengths, limits, forced, forced_lengths, normalizers, tokens, lengths, scores, totals)],
        )  # fmt: skip
        failed = self.code.translate(worker, ctypes.byref(job))
        if failed == TILES_REFUSED:
            raise SearchError("the system refuses the processor's tile registers; use engine 'torch'")
        if failed:
            raise MemoryError(
                f"there is no memory to translate {n} sentences of up to {int(source_lengths.max())} tokens"
            )
        if (lengths[:, 0] < 0).any():
            raise SearchError(NO_NUMBERS)
        columns = (tokens.tolist(), lengths.tolist(), scores.tolist(), totals.tolist(), limits.tolist())
        return [
            [
                Hypothesis(row[:length], score, total, length == limit)
                for row, length, score, total in zip(of_tokens, of_lengths, of_scores, of_totals, strict=True)
                if length >= 0
            ]
            for of_tokens, of_lengths, of_scores, of_totals, limit in zip(*columns, strict=True)
        ]

    def __del__(self) -> None:
        """Give the C side's memory back."""
        for worker in getattr(self, "free", ()):
            self.code.worker_free(worker)
        if getattr(self, "model", None):
            self.code.model_free(self.model)


def working_code() -> ctypes.CDLL | None:
    """The library, built without tiles where the system refuses them: a thread's signal stack may be too small."""
    code = library("translate", structures=STRUCTURES)
    if code is None or code.request_tiles() == 0:
        return code
    return library("translate", "-mno-amx-int8", structures=STRUCTURES)


def usual_threads() -> int:
    """OMP_NUM_THREADS, as PyTorch and others heed it, where it is a number of threads; else every processor."""
    asked = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()  # a list is of nested levels
    number = int(asked) if asked.isdecimal() and len(asked) < 5 else 0
    return number if 0 < number <= MOST_THREADS else available_cores()


def end_to_end(rows: Sequence[Sequence[int]]) -> tuple[Int32Array, Int32Array]:
    """Rows one after the other, and their lengths."""
    return np.array([i for row in rows for i in row], np.int32), np.array([len(row) for row in rows], np.int32)
