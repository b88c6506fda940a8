"""Encoders and decoding steps as CUDA graphs, and the host code around them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.rules import BatchRules
from dragoman.engines.cuda.state import GraphShape, ModelWeights, SearchState, SearchTensors, decode_step, encode
from dragoman.search.types import Hypothesis, Ids, Search
from dragoman.text.special_tokens import BOS, EOS, PAD

Integers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Booleans = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

STEPS_PER_GRAPH = 2  # the host checks once per graph, one graph late: at most 2 x 2 - 1 steps are wasted
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

    def encode(self, sources: Ids, lengths: Integers) -> Tensor:
        """Keys and values of sources, `[n, S, C]`; extra rows hold EOS. The next call overwrites the result."""
        ids = np.full(tuple(self.ids.shape), PAD)
        row_lengths = np.ones(len(ids), dtype=np.int64)
        row_lengths[: len(lengths)] = lengths + 1
        ids[np.arange(len(ids)), row_lengths - 1] = EOS
        flat = np.fromiter(chain.from_iterable(sources), np.int64, int(lengths.sum()))
        ids[: len(lengths)][np.arange(ids.shape[1]) < lengths[:, None]] = flat
        self.ids.copy_(torch.from_numpy(ids))
        self.lengths.copy_(torch.from_numpy(row_lengths))
        self.run()
        return self.out


class DecoderGraph:
    """A search state, its recorded steps, and the host's copy of which sentences are done."""

    def __init__(self, weights: ModelWeights, kernels: TorchKernels, shape: GraphShape, recorder: Recorder) -> None:
        self.weights, self.kernels, self.asynchronous = weights, kernels, recorder.records
        self.state = SearchState(weights, shape, kernels.follow)
        self.staging = SearchTensors(shape, torch.device("cpu"), pinned=recorder.records)
        self.host_done = torch.zeros(shape.sentences, dtype=torch.int32, pin_memory=recorder.records)
        self.events: list[torch.cuda.Event] = []
        self.run = recorder.record(self._steps)

    def _steps(self) -> None:
        for _ in range(STEPS_PER_GRAPH):
            decode_step(self.weights, self.state, self.kernels)
        self.host_done.copy_(self.state.done, non_blocking=True)

    def begin(self, source: Tensor, lengths: Integers, limits: Integers, search: Search, rules: BatchRules) -> None:
        """Start a new search; rows beyond the sources are done from the start."""
        s, staging, n = self.state, self.staging, len(lengths)
        staging.integers.zero_()
        staging.done[n:] = 1
        staging.limit[:n] = torch.from_numpy(limits)
        staging.source_length.fill_(1)
        staging.source_length[:n] = torch.from_numpy(lengths + 1)
        staging.min_length.fill_(search.min_length)
        staging.n_best.fill_(search.n_best)
        staging.score.fill_(-torch.inf)
        staging.score[:, 0] = 0.0  # the other slots are empty: they would hold the same hypothesis
        staging.normalizer.copy_(normalizers(search, s.shape.steps + 1))
        s.integers.copy_(staging.integers, non_blocking=True)
        s.floats.copy_(staging.floats, non_blocking=True)
        s.begin_rules(rules)
        s.history[0].fill_(BOS)
        s.source[:, : source.shape[1]].copy_(source.view(*source.shape[:2], *s.source.shape[2:]))
        self._reset_host_view()

    def take_over(self, other: DecoderGraph, sentences: Integers) -> None:
        """Continue some of another decoder's sentences."""
        self.state.take(other.state, torch.from_numpy(sentences).to(self.state.done.device))
        self._reset_host_view()

    def run_steps(self) -> Booleans:
        """Run a few steps; return which sentences were done before them: the device never waits for the host."""
        self.run()
        if self.asynchronous:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            self.events.append(event)
            if len(self.events) > 1:
                self.events.pop(0).synchronize()
        done: Booleans = self.host_done.numpy() != 0
        return done

    def _reset_host_view(self) -> None:
        self.host_done.zero_()
        self.events.clear()


def normalizers(search: Search, longest: int) -> Tensor:
    """`Search.normalizer` of all lengths up to this, `[longest + 1]`."""
    return ((5 + torch.arange(longest + 1, dtype=torch.float64)) / 6) ** search.length_penalty


def collect_hypotheses(
    s: SearchState, which: Integers, indices: Integers, limits: Integers, search: Search, found: list[list[Hypothesis]]
) -> None:
    """Write the best hypotheses of the done sentences `which` to their indices in `found`."""
    beam, ended, lengths = s.shape.beam, s.finished.cpu().numpy(), s.length.cpu().numpy()
    longest = int(lengths.max(initial=1))
    totals = s.score.double().cpu().numpy()
    scores = np.where(ended != 0, totals / normalizers(search, longest).numpy()[lengths], -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, : search.n_best]
    # The input at position p + 1 is token p; the lineage has the slot of the ancestor that wrote it.
    chosen = torch.from_numpy(order).to(s.lineage.device)[:, :, None].expand(-1, -1, longest)
    slots = s.lineage[:, :, :longest].gather(1, chosen).long()
    at = torch.arange(len(slots), device=slots.device)[:, None, None] * beam + slots
    tokens = s.history[:longest].t().gather(0, at.flatten(0, 1)).view(slots.shape)[:, :, 1:].tolist()
    columns = [np.take_along_axis(x, order, 1).tolist() for x in (lengths, scores, totals)]
    sentences = list(zip(tokens, *columns, indices.tolist(), (limits + 1).tolist(), strict=False))
    maps = None if not s.shape.recorded else recorded_maps(s, at[torch.from_numpy(which).to(at.device)])
    source_lengths = s.source_length.tolist()
    for number, i in enumerate(which.tolist()):
        *rows, index, limit = sentences[i]
        found[index] = [
            Hypothesis(
                row[: length - 1],
                score,
                total,
                length == limit,
                None if maps is None else maps[:, number, rank, :length, : source_lengths[i]].copy(),
            )
            for rank, (row, length, score, total) in enumerate(zip(*rows, strict=True))
            if score > -np.inf
        ]


def recorded_maps(s: SearchState, rows: Tensor) -> Any:
    """The recorded attention `[heads, sentences, hypotheses, T, S]` of the rows `[sentences, hypotheses, T]`."""
    at = torch.arange(rows.shape[-1], device=rows.device) * s.shape.rows + rows
    return s.maps.flatten(1, 2)[:, at, : int(s.source_length.max())].cpu().numpy()
