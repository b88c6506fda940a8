"""The engine for NVIDIA GPUs: whole decoding steps, beam selection included, recorded once and replayed.

A step of a small model is a hundred tiny kernels, and starting each from Python takes longer than running it. Here
they are recorded in a CUDA graph for a few shapes (`Shape`), and the host only looks, now and then and without
stopping the device, at which sentences are done.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import torch

from dragoman.engines.cuda.graphs import STEPS_A_GRAPH, Integers, Reader, Recorder, Runner, collect
from dragoman.engines.cuda.kernels_torch import TorchKernels
from dragoman.engines.cuda.state import Kernels, Shape, Weights, fits
from dragoman.errors import SearchError, ShapeError
from dragoman.models.transformer import Transformer
from dragoman.nn import LearnedPositions
from dragoman.nn.kernels.availability import triton_available
from dragoman.search.types import NO_NUMBERS, Hypothesis, Search

SENTENCES = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
MOST_BEAMS = 32
MOST_READERS = 64


class CudaEngine:
    """A Transformer on a GPU, in bfloat16 unless told otherwise.

    Shapes are recorded when they first come (some 0.05 s each, once the kernels are compiled) and kept, the most
    recently used of them, in at most `memory` of the device's memory. `batch` is how many sentences a call should
    bring: with fewer than a hundred the device is idle most of the time; a call may bring any number. On a CPU the same
    steps run one by one, for tests.
    """

    name = "cuda"
    independent = False  # matrix products of other shapes differ in the last bits
    threads = None  # of the CPU
    batch = 512

    def __init__(
        self,
        model: Transformer,
        dtype: torch.dtype = torch.bfloat16,
        device: torch.device | str = "cuda",
        *,
        memory: float = 0.3,
        kernels: Kernels | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.precision = str(dtype).removeprefix("torch.")
        self.fits = fits(model)
        if not self.fits:
            return
        bias = model.projection_bias()
        there = copy.deepcopy(model).to(self.device, dtype).eval()
        self.weights = Weights(there, None if bias is None else bias.to(self.device))
        self.kernels = kernels if kernels is not None else choose_kernels(self.device)
        whole = torch.cuda.mem_get_info(self.device)[1] if self.device.type == "cuda" else 8 << 30
        self.budget = int(whole * memory)
        self.recorder = Recorder(self.device)
        self.runners: OrderedDict[Shape, Runner] = OrderedDict()
        self.readers: OrderedDict[tuple[int, int], Reader] = OrderedDict()
        self.lock = threading.Lock()
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # the recorder's stream does not wait for the weights by itself

    def can(self, search: Search, prefixes: bool = False) -> bool:
        """Greedy and beam search, without a forced prefix or a guard against repetition, for models that fit."""
        return (
            self.fits
            and not prefixes
            and search.sampling is None
            and not search.no_repeat
            and search.beam <= min(MOST_BEAMS, self.weights.vocabulary)
        )

    def search(
        self, sources: Sequence[Sequence[int]], search: Search, prefixes: Sequence[Sequence[int]] | None = None
    ) -> list[list[Hypothesis]]:
        """The best hypotheses for each source, best first."""
        if not self.can(search, prefixes is not None and any(prefixes)):
            raise SearchError(f"the engine {self.name!r} does not do this search; ask `can` first, and use 'torch'")
        if not sources:
            return []
        code = self.weights.code
        most = len(code.table) - 1 if isinstance(code, LearnedPositions) else None  # no token has a place beyond
        lengths = np.fromiter(map(len, sources), np.int64, len(sources))
        known = {n: search.limit(n) for n in set(lengths.tolist())}
        limits = np.array([known[n] for n in lengths.tolist()])
        limits = limits if most is None else limits.clip(max=most)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        start = 0
        with self.lock, torch.inference_mode(), self.recorder.here():
            while start < len(sources):
                part = slice(start, start + self._room(lengths[start:], limits[start:], search.beam))
                places = np.arange(len(sources))[part]
                self._together(sources[part], lengths[part], limits[part], search, found, places)
                start = part.stop
        if not all(found):
            raise SearchError(NO_NUMBERS)
        return found

    def _room(self, lengths: Integers, limits: Integers, beam: int) -> int:
        """How many of the next sentences fit into half of the memory at the longest one's shape.

        The other half is for the smaller state in which the last of them go on.
        """
        n = min(len(lengths), SENTENCES[-1])
        while n > 1 and shape_of(lengths[:n], limits[:n], beam).bytes(self.weights) > self.budget / 2:
            n //= 2
        return n

    def _together(
        self,
        sources: Sequence[Sequence[int]],
        lengths: Integers,
        limits: Integers,
        search: Search,
        found: list[list[Hypothesis]],
        places: Integers,
    ) -> None:
        """A search in one state, into `places` of `found`; when few sentences are left they go on in a smaller one."""
        runner = self._runner(shape_of(lengths, limits, search.beam))
        read = self._reader(runner.state.shape.sentences, int(lengths.max()) + 1).read(sources, lengths)
        runner.begin(read, lengths, limits, search)
        for _ in range(0, int(limits.max()) + 1, STEPS_A_GRAPH):
            done = runner.go()[: len(places)]
            if done.all():
                break
            room, going = runner.state.shape, np.flatnonzero(~done)
            if len(going) <= room.sentences // 4 and room.sentences > SENTENCES[3]:
                smaller = self._runner(Shape(bucket(len(going)), room.beam, room.source, room.steps), beside=runner)
                collect(runner.state, np.flatnonzero(done), places, limits, search, found)
                smaller.go_on(runner, going)
                runner, places, limits = smaller, places[going], limits[going]
        collect(runner.state, np.arange(len(places)), places, limits, search, found)

    def _reader(self, n: int, longest: int) -> Reader:
        """The encoder of a shape, in which sources may have some tokens fewer than there is room for."""
        width = -(-longest // 8) * 8 if longest <= 64 else -(-longest // 32) * 32
        code = self.weights.source_code
        if isinstance(code, LearnedPositions):
            if longest > len(code.table):
                raise ShapeError(
                    f"a source of {longest} tokens came, but positions were learned for {len(code.table)}; use shorter "
                    f"sentences, or train with a larger model.max_positions or model.positions='sinusoidal'"
                )
            width = min(width, len(code.table))
        reader = self.readers.pop((n, width), None) or Reader(self.weights, self.kernels, n, width, self.recorder)
        self.readers[n, width] = reader
        if len(self.readers) > MOST_READERS:
            self.readers.popitem(last=False)
        return reader

    def _runner(self, shape: Shape, beside: Runner | None = None) -> Runner:
        """The state of a shape; for a new one, those that were used longest ago make room, but not `beside`."""
        runner = self.runners.pop(shape, None)
        if runner is None:
            used = sum(old.bytes(self.weights) for old in self.runners)
            for old in [old for old, kept in self.runners.items() if kept is not beside]:
                if used + shape.bytes(self.weights) <= self.budget:
                    break
                used -= old.bytes(self.weights)
                del self.runners[old]
            runner = Runner(self.weights, self.kernels, shape, self.recorder)
        self.runners[shape] = runner
        return runner


def bucket(n: int) -> int:
    """The number of sentences that is recorded for n of them."""
    return next(size for size in SENTENCES if size >= n)


def shape_of(lengths: Integers, limits: Integers, beam: int) -> Shape:
    """The shape in which a search of such sources runs."""
    room = power_of_two(int(lengths.max()) + 1, 32), power_of_two(int(limits.max()) + 1, 32)
    return Shape(bucket(len(lengths)), beam, *room)


def choose_kernels(device: torch.device) -> Kernels:
    """Triton's where it is installed and has a device."""
    if device.type != "cuda" or not triton_available(device.type):
        return TorchKernels()
    from dragoman.engines.cuda.kernels_triton import TritonKernels

    return TritonKernels()


def power_of_two(n: int, least: int) -> int:
    """The smallest that is no smaller than either."""
    return max(least, 1 << (n - 1).bit_length())
