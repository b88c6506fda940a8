"""A statistical aligner: IBM Model 2 with a diagonal prior in both directions, symmetrized (native/word_alignment/)."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from dragoman.arrays import Int32Array, Int64Array
from dragoman.cpu import available_cores
from dragoman.data.shards import Sentences
from dragoman.errors import TrainingError
from dragoman.native import library, why_not
from dragoman.progress import Reporter

ITERATIONS: Final = 5
TRAINING_CELLS: Final = 80_000_000  # pairs of tokens to train on: about 100,000 sentences; more improves little
CHUNK_PAIRS: Final = 50_000
MAX_SLOTS: Final = 1 << 25  # of the table of token pairs: 800 MB when full
MIN_SLOTS: Final = 1 << 10


class PairsStructure(ctypes.Structure):
    """`Pairs` of native/word_alignment/model.h."""

    _fields_ = (
        ("count", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("source", "target", "source_offsets", "target_offsets")),
    )


@dataclass(frozen=True)
class TokenPairs:
    """Sentence pairs as ids, end to end; `swapped` exchanges the sides."""

    source: Int32Array
    target: Int32Array
    source_offsets: Int64Array
    target_offsets: Int64Array

    @classmethod
    def gather(cls, source: Sentences, target: Sentences, pairs: Int64Array) -> TokenPairs:
        """Some pairs of a corpus."""
        sides = [side.gather(pairs) for side in (source, target)]
        ids = [np.ascontiguousarray(flat, np.int32) for flat, _ in sides]
        offsets = [np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]) for _, lengths in sides]
        return cls(ids[0], ids[1], offsets[0], offsets[1])

    @property
    def swapped(self) -> TokenPairs:
        """The same pairs in the other direction."""
        return TokenPairs(self.target, self.source, self.target_offsets, self.source_offsets)

    def structure(self) -> PairsStructure:
        """The pairs for C, valid as long as the arrays."""
        arrays = (self.source, self.target, self.source_offsets, self.target_offsets)
        return PairsStructure(len(self.source_offsets) - 1, *(array.ctypes.data for array in arrays))


class AlignmentModel:
    """A model of one direction: where each target token comes from."""

    def __init__(self, pairs: TokenPairs, vocabulary: int, threads: int | None = None) -> None:
        self.address: int | None = None
        self.code = load_code()
        cells = int(np.diff(pairs.source_offsets) @ np.diff(pairs.target_offsets)) + 2 * len(pairs.target)
        slots = min(MAX_SLOTS, max(MIN_SLOTS, 1 << (2 * cells).bit_length()))
        self.address = self.code.model_new(slots, vocabulary, threads or available_cores())
        if not self.address or self.code.model_train(self.address, ctypes.byref(pairs.structure()), ITERATIONS):
            raise MemoryError("not enough memory to align the training data")

    def align(self, pairs: TokenPairs) -> Int32Array:
        """The source position of each target token in its sentence; -1 for none."""
        best = np.empty(len(pairs.target), np.int32)
        self.code.model_align(self.address, ctypes.byref(pairs.structure()), best.ctypes.data)
        return best

    def probability(self, source: int, target: int) -> float:
        """The probability that a source token translates to a target token."""
        return float(self.code.model_probability(self.address, source, target))

    def __del__(self) -> None:
        """Free the memory of the C side."""
        if self.address:
            self.code.model_free(self.address)


def symmetrize(pairs: TokenPairs, to_source: Int32Array, to_target: Int32Array) -> Sentences:
    """Combine the alignments of both directions (grow-diag-final-and): links `target << 16 | source` per sentence."""
    links = np.empty(len(pairs.source) + len(pairs.target), np.uint32)
    counts = np.empty(len(pairs.source_offsets) - 1, np.int64)
    arrays = [array.ctypes.data for array in (to_source, to_target, links, counts)]
    if load_code().symmetrize(ctypes.byref(pairs.structure()), *arrays):
        raise MemoryError("not enough memory to symmetrize alignments")
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    return Sentences(links[: offsets[-1]].copy(), offsets)


def align_corpus(
    source: Sentences, target: Sentences, vocabulary: tuple[int, int], reporter: Reporter, threads: int | None = None
) -> Iterator[Sentences]:
    """Align all pairs of a corpus, some at a time; the result does not depend on the number of threads."""
    n = len(source)
    reporter.start_stage("align", n, "pairs")
    cells = int(source.lengths.astype(np.int64) @ target.lengths.astype(np.int64))
    sample = np.unique(
        np.linspace(0, n - 1, max(1, int(n * min(1.0, TRAINING_CELLS / max(1, cells))))).astype(np.int64)
    )
    pairs = TokenPairs.gather(source, target, sample)
    forward = AlignmentModel(pairs, vocabulary[0], threads)
    backward = AlignmentModel(pairs.swapped, vocabulary[1], threads)
    for start in range(0, n, CHUNK_PAIRS):
        pairs = TokenPairs.gather(source, target, np.arange(start, min(start + CHUNK_PAIRS, n)))
        yield symmetrize(pairs, forward.align(pairs), backward.align(pairs.swapped))
        reporter.advance(len(pairs.source_offsets) - 1)


def load_code() -> Any:
    """The library; TrainingError without a C compiler."""
    code = library("word_alignment")
    if code is None:
        raise TrainingError(
            f"aligning the training data needs the C library word_alignment: {why_not('word_alignment')}; or train "
            "without guided alignment: train.alignment_weight=0",
            code="compiler_missing",
        )
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    code.model_new.argtypes, code.model_new.restype = (number, number, ctypes.c_int), pointer
    code.model_free.argtypes, code.model_free.restype = (pointer,), None
    code.model_train.argtypes = (pointer, pointer, ctypes.c_int)
    code.model_align.argtypes = (pointer,) * 3
    code.model_probability.argtypes = (pointer, ctypes.c_int32, ctypes.c_int32)
    code.model_probability.restype = ctypes.c_double
    code.symmetrize.argtypes = (pointer,) * 5
    return code
