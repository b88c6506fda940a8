"""Recorded encoders and steps, and what the host does around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from dragoman.engines.cuda.state import Kernels, Numbers, Shape, State, Weights, read, step
from dragoman.search.types import Hypothesis, Search
from dragoman.text.special_tokens import BOS, EOS, PAD

Integers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Truths = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

STEPS_A_GRAPH = 2  # the host looks once a graph, and a graph late, so that at most 2 x 2 - 1 steps are wasted
RECORDED_TOKENS = 32768  # encoders of larger batches keep the device busy without being recorded


class Recorder:
    """Makes CUDA graphs of one stream, which share what memory they need while they run: one runs after the other."""

    def __init__(self, device: torch.device) -> None:
        self.records = device.type == "cuda"
        self.pool = torch.cuda.graph_pool_handle() if self.records else None
        self.stream = torch.cuda.Stream(device) if self.records else None  # type: ignore[no-untyped-call]

    def here(self) -> AbstractContextManager[object]:
        """Inside, everything goes to this stream."""
        return nullcontext() if self.stream is None else torch.cuda.stream(self.stream)

    def record(self, body: Callable[[], None]) -> Callable[[], None]:
        """A function that does what `body` does, at the addresses it has now; on a CPU, `body` itself."""
        if not self.records:
            return body
        body()  # libraries and kernels set themselves up on the first run, which cannot be recorded
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream, capture_error_mode="thread_local"):
            body()
        return graph.replay


class Reader:
    """The encoder for one shape of batch, and the keys and values that all decoder layers make of its output."""

    def __init__(self, weights: Weights, kernels: Kernels, n: int, width: int, recorder: Recorder) -> None:
        self.weights, self.kernels = weights, kernels
        self.ids = torch.full((n, width), EOS, device=weights.device)
        self.lengths = torch.ones(n, dtype=torch.int32, device=weights.device)
        self.codes = weights.positions(width, source=True)
        self.out = torch.empty(0, device=weights.device)
        self.run = recorder.record(self._encode) if n * width <= RECORDED_TOKENS else self._encode

    def _encode(self) -> None:
        out = read(self.weights, self.ids, self.lengths, self.codes, self.kernels)
        self.out = out.view(*self.ids.shape, -1)  # a recorded one comes to the same address every time

    def read(self, sources: Sequence[Sequence[int]], lengths: Integers) -> Tensor:
        """Read some sources, `[n, S, C]`; rows beyond them hold an end mark. The next call overwrites what comes."""
        ids = np.full(tuple(self.ids.shape), PAD)
        held = np.ones(len(ids), dtype=np.int64)
        held[: len(lengths)] = lengths + 1
        ids[np.arange(len(ids)), held - 1] = EOS
        flat = np.fromiter(chain.from_iterable(sources), np.int64, int(lengths.sum()))
        ids[: len(lengths)][np.arange(ids.shape[1]) < lengths[:, None]] = flat
        self.ids.copy_(torch.from_numpy(ids))
        self.lengths.copy_(torch.from_numpy(held))
        self.run()
        return self.out


class Runner:
    """A state, its recorded steps, and the host's look at which sentences are done."""

    def __init__(self, weights: Weights, kernels: Kernels, shape: Shape, recorder: Recorder) -> None:
        self.weights, self.kernels, self.asynchronous = weights, kernels, recorder.records
        self.state = State(weights, shape)
        self.given = Numbers(shape, torch.device("cpu"), pinned=recorder.records)
        self.seen = torch.zeros(shape.sentences, dtype=torch.int32, pin_memory=recorder.records)
        self.passed: list[torch.cuda.Event] = []
        self.run = recorder.record(self._steps)

    def _steps(self) -> None:
        for _ in range(STEPS_A_GRAPH):
            step(self.weights, self.state, self.kernels)
        self.seen.copy_(self.state.done, non_blocking=True)

    def begin(self, source: Tensor, lengths: Integers, limits: Integers, search: Search) -> None:
        """A new search; rows beyond the sources are done before it starts."""
        s, given, n = self.state, self.given, len(lengths)
        given.integers.zero_()
        given.done[n:] = 1
        given.limit[:n] = torch.from_numpy(limits)
        given.source_length.fill_(1)
        given.source_length[:n] = torch.from_numpy(lengths + 1)
        given.least.fill_(search.min_length)
        given.wanted.fill_(search.n_best)
        given.score.fill_(-torch.inf)
        given.score[:, 0] = 0.0  # the other slots are empty: they would hold the same hypothesis
        given.normalizer.copy_(normalizers(search, s.shape.steps + 1))
        s.integers.copy_(given.integers, non_blocking=True)
        s.floats.copy_(given.floats, non_blocking=True)
        s.history[0].fill_(BOS)
        s.source[:, : source.shape[1]].copy_(source.view(*source.shape[:2], *s.source.shape[2:]))
        self._look_afresh()

    def go_on(self, other: Runner, sentences: Integers) -> None:
        """Take over some of another's sentences."""
        self.state.take(other.state, torch.from_numpy(sentences).to(self.state.done.device))
        self._look_afresh()

    def go(self) -> Truths:
        """Some steps more; which sentences were done before them, so that the device goes on while the host looks."""
        self.run()
        if self.asynchronous:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
            self.passed.append(event)
            if len(self.passed) > 1:
                self.passed.pop(0).synchronize()
        done: Truths = self.seen.numpy() != 0
        return done

    def _look_afresh(self) -> None:
        self.seen.zero_()
        self.passed.clear()


def normalizers(search: Search, longest: int) -> Tensor:
    """`Search.normalizer` of all lengths up to this, `[longest + 1]`."""
    return ((5 + torch.arange(longest + 1, dtype=torch.float64)) / 6) ** search.length_penalty


def collect(
    s: State, which: Integers, places: Integers, limits: Integers, search: Search, found: list[list[Hypothesis]]
) -> None:
    """The best hypotheses of some of a state's sentences, which are done, into their places in `found`."""
    beam, ended, lengths = s.shape.beam, s.finished.cpu().numpy(), s.length.cpu().numpy()
    longest = int(lengths.max(initial=1))
    totals = s.score.double().cpu().numpy()
    scores = np.where(ended != 0, totals / normalizers(search, longest).numpy()[lengths], -np.inf)
    order = np.argsort(-scores, axis=1, kind="stable")[:, : search.n_best]
    # What was put in at position p + 1 is token p; the slot of the ancestor who did it stands in the lineage.
    chosen = torch.from_numpy(order).to(s.lineage.device)[:, :, None].expand(-1, -1, longest)
    slots = s.lineage[:, :, :longest].gather(1, chosen).long()
    at = torch.arange(len(slots), device=slots.device)[:, None, None] * beam + slots
    tokens = s.history[:longest].t().gather(0, at.flatten(0, 1)).view(slots.shape)[:, :, 1:].tolist()
    columns = [np.take_along_axis(x, order, 1).tolist() for x in (lengths, scores, totals)]
    sentences = list(zip(tokens, *columns, places.tolist(), (limits + 1).tolist(), strict=False))
    for i in which.tolist():
        *rows, place, limit = sentences[i]
        found[place] = [
            Hypothesis(row[: length - 1], score, total, length == limit)
            for row, length, score, total in zip(*rows, strict=True)
            if score > -np.inf
        ]
