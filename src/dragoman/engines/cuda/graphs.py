"""Encoders and decoding steps as CUDA graphs, and the host code around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.arrays import Int32Array
from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.rules import BatchRules
from dragoman.engines.cuda.state import GraphShape, ModelWeights, SearchState, SearchTensors, decode_step, encode
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import Search
from dragoman.text.special_tokens import BOS, EOS, PAD

Integers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Booleans = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

STEPS_PER_GRAPH = 2  # the host checks once per graph, one graph late: at most 2 x 2 - 1 steps are wasted
PER_SENTENCE = ("done", "position", "limit", "source_length", "finished", "length", "score")  # of `SearchTensors`
PER_SEARCH = ("min_length", "n_best", "normalizer")
MAX_RECORDED_TOKENS = 32768  # encoders of larger batches keep the device busy without a graph


class Recorder:
    """Record CUDA graphs on one stream; they run one after the other and share working memory."""

    def __init__(self, device: torch.device) -> None:
        self.records = device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if self.records else None
        self.stream = torch.cuda.Stream(device) if self.records else None  # type: ignore[no-untyped-call]

    def on_stream(self) -> AbstractContextManager[object]:
        """Context in which work goes to the recorder's stream."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def record(self, body: Callable[[], None]) -> Callable[[], None]:
        """A function that replays `body` at its current addresses; on a CPU, `body` itself."""
        if not self.records:
            return body
        body()  # libraries and kernels initialize on the first run, which cannot be recorded
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            body()
        return graph.replay


class EncoderGraph:
    """The encoder for one batch shape, with the keys and values of all decoder layers."""

    def __init__(self, weights: ModelWeights, kernels: TorchKernels, n: int, width: int, recorder: Recorder) -> None:
        self.weights, self.kernels = weights, kernels
        self.ids = torch.full((n, width), EOS, device=weights.device)
        self.lengths = torch.ones(n, dtype=torch.int32, device=weights.device)
        self.codes = weights.positions(width, source=True)
        self.out = torch.empty(0, device=weights.device)
        self.run = recorder.record(self._encode) if n * width <= MAX_RECORDED_TOKENS else self._encode

    def _encode(self) -> None:
        out = encode(self.weights, self.ids, self.lengths, self.codes, self.kernels)
        self.out = out.view(*self.ids.shape, -1)  # a graph writes to the same address every time

    def encode(self, sources: Int32Array, lengths: Integers) -> Tensor:
        """Keys and values of concatenated sources, `[n, S, C]`; extra rows hold EOS. The next call overwrites them."""
        ids = np.full(tuple(self.ids.shape), PAD)
        row_lengths = np.ones(len(ids), dtype=np.int64)
        row_lengths[: len(lengths)] = lengths + 1
        ids[np.arange(len(ids)), row_lengths - 1] = EOS
        ids[: len(lengths)][np.arange(ids.shape[1]) < lengths[:, None]] = sources
        self.ids.copy_(torch.from_numpy(ids))
        self.lengths.copy_(torch.from_numpy(row_lengths))
        self.run()
        return self.out


class DecoderGraph:
    """A search state, its recorded steps, the host's copy of its small tensors, and of which sentences are done.

    The host works on NumPy arrays: each operation of PyTorch gives other threads of Python a chance to run first.
    """

    def __init__(self, weights: ModelWeights, kernels: TorchKernels, shape: GraphShape, recorder: Recorder) -> None:
        self.weights, self.kernels, self.asynchronous = weights, kernels, recorder.records
        self.state = SearchState(weights, shape, kernels.follow)
        self.staging = SearchTensors(shape, torch.device("cpu"), pinned=recorder.records)
        self.host: dict[str, Any] = {name: getattr(self.staging, name).numpy() for name in (*PER_SENTENCE, *PER_SEARCH)}
        self.host_done = torch.zeros(shape.sentences, dtype=torch.int32, pin_memory=recorder.records)
        self.done = self.host_done.numpy()
        self.events: list[torch.cuda.Event] = []
        self.run = recorder.record(self._steps)

    def _steps(self) -> None:
        for _ in range(STEPS_PER_GRAPH):
            decode_step(self.weights, self.state, self.kernels)
        self.host_done.copy_(self.state.done, non_blocking=True)

    def begin(self, source: Tensor, lengths: Integers, limits: Integers, search: Search, rules: BatchRules) -> None:
        """Start a new search; rows beyond the sources are done from the start."""
        s = self.state
        of_search = search.min_length, search.n_best, normalizers(search.length_penalty, s.shape.steps + 1)
        score = np.full((len(lengths), s.shape.beam), -np.inf)
        score[:, 0] = 0.0  # the other slots are empty: they would hold the same hypothesis
        self._load((0, 0, limits, lengths + 1, 0, 0, score), of_search, len(lengths))
        s.begin_rules(rules)
        s.history[0].fill_(BOS)
        s.source[:, : source.shape[1]].copy_(source.view(*source.shape[:2], *s.source.shape[2:]))

    def take_over(self, other: DecoderGraph, sentences: Integers) -> None:
        """Continue some sentences of another decoder, whose small tensors were just copied to the host."""
        per_sentence = [other.host[name][sentences] for name in PER_SENTENCE]
        self._load(per_sentence, [other.host[name] for name in PER_SEARCH], len(sentences))
        self.state.take(other.state, sentences)

    def _load(self, per_sentence: Sequence[Any], per_search: Sequence[Any], n: int) -> None:
        """Copy values of the first n sentences and of the search to the device; the other sentences are done."""
        for name, value, rest in zip(PER_SENTENCE, per_sentence, (1, 0, 0, 1, 0, 0, -np.inf), strict=True):
            self.host[name][:n], self.host[name][n:] = value, rest
        for name, value in zip(PER_SEARCH, per_search, strict=True):
            self.host[name][:] = value
        self.state.integers.copy_(self.staging.integers, non_blocking=True)
        self.state.floats.copy_(self.staging.floats, non_blocking=True)
        self.done[:] = 0
        self.events.clear()

    def read_back(self) -> dict[str, Any]:
        """The small tensors as arrays, copied from the device."""
        self.staging.integers.copy_(self.state.integers, non_blocking=True)
        self.staging.floats.copy_(self.state.floats)
        return self.host

    def run_steps(self) -> Booleans:
        """Run a few steps; return which sentences were done before them: the device never waits for the host."""
        self.run()
        if self.asynchronous:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            self.events.append(event)
            if len(self.events) > 1:
                self.events.pop(0).synchronize()
        done: Booleans = self.done != 0
        return done


@lru_cache(256)
def normalizers(length_penalty: float, longest: int) -> Any:
    """`Search.normalizer` of all lengths up to this, `[longest + 1]`, as an array."""
    return (((5 + torch.arange(longest + 1, dtype=torch.float64)) / 6) ** length_penalty).numpy()


def collect_hypotheses(decoder: DecoderGraph, which: Integers, limits: Integers, search: Search) -> HypothesisTable:
    """The best hypotheses of the done sentences `which`."""
    s, host = decoder.state, decoder.read_back()
    beam, lengths, totals = s.shape.beam, host["length"], host["score"].astype(np.float64)
    longest = int(lengths.max(initial=1))
    scores = np.where(host["finished"] != 0, totals / normalizers(search.length_penalty, longest)[lengths], -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[which, : search.n_best]
    lengths, scores, totals = (x[which[:, None], order] for x in (lengths, scores, totals))
    # The input at position p + 1 is token p; the lineage has the slot of the ancestor that wrote it.
    history = s.history[:longest].cpu().numpy()
    rows = (which[:, None] * beam)[:, :, None]
    if beam > 1:
        rows = rows + s.lineage[:, :, :longest].cpu().numpy()[which[:, None], order]
    tokens = history[np.arange(longest), rows][:, :, 1:]
    lengths = np.where(scores > -np.inf, lengths - 1, -1)
    found = HypothesisTable.from_padded(tokens, lengths, scores, totals, limits[which])
    if not s.shape.recorded:
        return found
    maps = recorded_maps(s, torch.from_numpy(rows.repeat(longest // rows.shape[2], 2)).to(s.maps.device))
    there, n_source = np.argwhere(lengths >= 0).tolist(), host["source_length"][which]
    each = [maps[:, i, rank, : lengths[i, rank] + 1, : n_source[i]].copy() for i, rank in there]
    return replace(found, maps=each)


def recorded_maps(s: SearchState, rows: Tensor) -> Any:
    """The recorded attention `[heads, sentences, hypotheses, T, S]` of the rows `[sentences, hypotheses, T]`."""
    at = torch.arange(rows.shape[-1], device=rows.device) * s.shape.rows + rows
    return s.maps.flatten(1, 2)[:, at, : int(s.source_length.max())].cpu().numpy()
