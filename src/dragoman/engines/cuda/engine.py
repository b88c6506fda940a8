"""The engine for NVIDIA GPUs: whole decoding steps, beam selection included, replayed as CUDA graphs.

A step of a small model is a hundred tiny kernels, and launching each from Python takes longer than running it. Here
they are recorded in a CUDA graph for a few shapes (`GraphShape`); the host only checks from time to time which
sentences are done, without stalling the device.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from dragoman.arrays import Int32Array, concatenate
from dragoman.engines.base import check_batch, check_supported
from dragoman.engines.cuda import graphs
from dragoman.engines.cuda.graphs import DecoderGraph, EncoderGraph, Integers, Recorder, collect_hypotheses
from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.rules import BatchRules
from dragoman.engines.cuda.state import GraphShape, ModelWeights
from dragoman.engines.specs import CUDA, cuda_unavailable
from dragoman.errors import SearchError, ShapeError
from dragoman.models.transformer import Transformer
from dragoman.nn import LearnedPositions
from dragoman.nn.kernels import triton_available
from dragoman.search.hypotheses import HypothesisTable
from dragoman.search.types import NOT_FINITE, Ids, RecordedHead, Search, StopFlag, output_limits

if TYPE_CHECKING:
    from dragoman.search.constraints.tables import BatchConstraints

SENTENCES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
MAX_ENCODERS = 64


class CudaEngine:
    """A Transformer on a GPU, in bfloat16 by default.

    Shapes are recorded on first use (some 0.05 s each, once the kernels are compiled); the most recently used ones are
    kept, in at most the fraction `memory` of the device's memory. A call may have any number of sentences; with fewer
    than a hundred, the device is idle most of the time. On a CPU the same steps run one by one, for tests.
    """

    name = "cuda"
    threads = None  # CPU threads
    batch = CUDA.preferred_batch

    def __init__(
        self,
        model: Transformer,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str = "cuda",
        *,
        memory: float = 0.3,
        kernels: TorchKernels | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.precision = str(dtype).removeprefix("torch.")
        if reason := cuda_unavailable(model.recipe, "cuda"):
            raise SearchError(
                f"the engine 'cuda' cannot run this model: {reason}; use 'torch'", code="unsupported_model"
            )
        bias = model.projection_bias()
        copied = copy.deepcopy(model).to(self.device, dtype).eval()
        self.weights = ModelWeights(copied, None if bias is None else bias.to(self.device))
        self.capabilities = replace(CUDA, max_beam=min(CUDA.max_beam, self.weights.vocabulary))
        self.kernels = kernels if kernels is not None else choose_kernels(self.device)
        total = torch.cuda.mem_get_info(self.device)[1] if self.device.type == "cuda" else 8 << 30
        self.budget = int(total * memory)
        self.recorder = Recorder(self.device)
        self.decoders: OrderedDict[GraphShape, DecoderGraph] = OrderedDict()
        self.encoders: OrderedDict[tuple[int, int], EncoderGraph] = OrderedDict()
        self.lock = threading.Lock()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # the recorder's stream does not wait for the weights by itself

    def search(
        self,
        sources: Ids,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
        record: Sequence[RecordedHead] = (),
    ) -> HypothesisTable:
        """Return the best hypotheses for each source, best first."""
        return self.search_arrays(*concatenate(sources), search, prefixes, constraints, stop, record)

    def search_arrays(
        self,
        ids: Int32Array,
        counts: Int32Array,
        search: Search,
        prefixes: Ids | None = None,
        constraints: BatchConstraints | None = None,
        stop: StopFlag | None = None,
        record: Sequence[RecordedHead] = (),
    ) -> HypothesisTable:
        """`search` for concatenated sources and the length of each."""
        check_supported(self, search, prefixes, constraints)
        check_batch(counts, prefixes, constraints, self.weights.vocabulary)
        if not len(counts):
            return HypothesisTable.join([])
        code = self.weights.code
        longest = len(code.table) - 1 if isinstance(code, LearnedPositions) else None  # there are no further positions
        lengths, ends = counts.astype(np.int64), np.cumsum(counts)
        limits = output_limits(search, lengths)
        limits = limits if longest is None else limits.clip(max=longest)
        if prefixes is not None:
            limits = np.maximum(limits, np.fromiter(map(len, prefixes), np.int64, len(counts)))
            if longest is not None and limits.max() > longest:
                raise too_long("prefix", int(limits.max()) + 1, longest + 1)
        found: list[tuple[Integers, HypothesisTable]] = []  # sentences, and their hypotheses
        start = 0
        with self.lock, torch.inference_mode(), self.recorder.on_stream():
            while start < len(counts):
                n = self._room(lengths[start:], limits[start:], search.beam, tuple(record))
                part = slice(start, start + n)
                shape = shape_of(lengths[part], limits[part], search.beam, tuple(record))
                rules = BatchRules(
                    None if prefixes is None else prefixes[part],
                    search.no_repeat,
                    None if constraints is None else constraints[part],
                    shape.steps,
                )
                decoder = self._decoder(replace(shape, rules=rules.shape))
                here = ids[ends[start] - lengths[start] : ends[start + n - 1]]
                memory = self._encoder(shape.sentences, int(lengths[part].max()) + 1).encode(here, lengths[part])
                decoder.begin(memory, lengths[part], limits[part], search, rules)
                found += self._search_batch(decoder, limits[part], search, np.arange(start, start + n), stop)
                start = part.stop
        order = np.argsort(np.concatenate([indices for indices, _ in found]))
        table = HypothesisTable.join([hypotheses for _, hypotheses in found]).take(order)
        if not table.counts.all():
            raise SearchError(NOT_FINITE, code="not_finite")
        return table

    def _room(self, lengths: Integers, limits: Integers, beam: int, record: tuple[RecordedHead, ...]) -> int:
        """The number of next sentences that fit into half of the memory, all at the longest one's shape.

        The other half is for the smaller state in which the last few continue.
        """
        n = min(len(lengths), SENTENCES[-1])
        while n > 1 and shape_of(lengths[:n], limits[:n], beam, record).bytes(self.weights) > self.budget / 2:
            n //= 2
        return n

    def _search_batch(
        self,
        decoder: DecoderGraph,
        limits: Integers,
        search: Search,
        indices: Integers,
        stop: StopFlag | None = None,
    ) -> Iterator[tuple[Integers, HypothesisTable]]:
        """Run a search that has begun for the sentences `indices`; the last few continue in a smaller state.

        Yields sentences and their hypotheses.
        """
        for _ in range(0, int(limits.max()) + 1, graphs.STEPS_PER_GRAPH):
            if stop is not None:
                stop.check()
            done = decoder.run_steps()[: len(indices)]
            if done.all():
                break
            room, going = decoder.state.shape, np.flatnonzero(~done)
            if len(going) <= room.sentences // 4 and room.sentences > SENTENCES[3]:
                smaller = self._decoder(replace(room, sentences=bucket(len(going))), keep=decoder)
                yield indices[done], collect_hypotheses(decoder, np.flatnonzero(done), limits, search)
                smaller.take_over(decoder, going)
                decoder, indices, limits = smaller, indices[going], limits[going]
        yield indices, collect_hypotheses(decoder, np.arange(len(indices)), limits, search)

    def _encoder(self, n: int, longest: int) -> EncoderGraph:
        """The encoder of a shape; sources may be shorter than its width."""
        width = -(-longest // 8) * 8 if longest <= 64 else -(-longest // 32) * 32
        code = self.weights.source_code
        if isinstance(code, LearnedPositions):
            if longest > len(code.table):
                raise too_long("source", longest, len(code.table))
            width = min(width, len(code.table))
        encoder = self.encoders.pop((n, width), None) or EncoderGraph(
            self.weights, self.kernels, n, width, self.recorder
        )
        self.encoders[n, width] = encoder
        if len(self.encoders) > MAX_ENCODERS:
            self.encoders.popitem(last=False)
        return encoder

    def _decoder(self, shape: GraphShape, keep: DecoderGraph | None = None) -> DecoderGraph:
        """The decoder of a shape; a new one evicts the least recently used ones, but not `keep`."""
        decoder = self.decoders.pop(shape, None)
        if decoder is None:
            used = sum(old.bytes(self.weights) for old in self.decoders)
            for old in [old for old, kept in self.decoders.items() if kept is not keep]:
                if used + shape.bytes(self.weights) <= self.budget:
                    break
                used -= old.bytes(self.weights)
                del self.decoders[old]
            decoder = DecoderGraph(self.weights, self.kernels, shape, self.recorder)
        self.decoders[shape] = decoder
        return decoder


def bucket(n: int) -> int:
    """The smallest recorded number of sentences that holds n."""
    return next(size for size in SENTENCES if size >= n)


def shape_of(lengths: Integers, limits: Integers, beam: int, record: tuple[RecordedHead, ...] = ()) -> GraphShape:
    """The shape for a search of these sources."""
    room = power_of_two(int(lengths.max()) + 1, 32), power_of_two(int(limits.max()) + 1, 32)
    return GraphShape(bucket(len(lengths)), beam, *room, recorded=record)


def too_long(what: str, tokens: int, learned: int) -> ShapeError:
    """The error for a source or a prefix with more tokens than there are positions."""
    return ShapeError(
        f"a {what} has {tokens} tokens, but positions were learned for {learned}; use shorter sentences, or train with "
        "a larger model.max_positions or model.positions='sinusoidal'",
        code="text_too_long",
    )


def choose_kernels(device: torch.device) -> TorchKernels:
    """The Triton kernels if Triton is installed and supports the device, else PyTorch's."""
    if device.type != "cuda" or not triton_available(device.type):
        return TorchKernels()
    from dragoman.engines.cuda.kernels_triton import TritonKernels

    return TritonKernels()


def power_of_two(n: int, minimum: int) -> int:
    """The smallest power of two that is at least n, or the minimum."""
    return max(minimum, 1 << (n - 1).bit_length())
