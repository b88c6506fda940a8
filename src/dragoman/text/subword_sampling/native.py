"""Subword sampling for a whole batch in C (native/subword_sampling/), with the results of segmentation.py."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Final

import numpy as np

from dragoman.arrays import IntArray, Uint64Array
from dragoman.native import library
from dragoman.text.subword_sampling.segmentation import run_scale
from dragoman.text.token_table import FIRST_LEARNED, TokenTable

NATIVE_KINDS: Final = ("bpe", "unigram", "wordpiece")  # numbered as in C


class NativeSampler:
    """Subword sampling with a vocabulary's tokens, in C. `resample` may be called from several threads at once."""

    def __init__(self, code: ctypes.CDLL, kind: str, table: TokenTable, scores: Sequence[float]) -> None:
        learned = table.token_bytes[FIRST_LEARNED:]
        characters = {c for token in learned for c in token.decode()} if kind == "bpe" else set()
        # Characters inside tokens that have no token themselves; if one is left in the end, it is encoded as bytes.
        tokens = table.token_bytes + sorted({c.encode() for c in characters}.difference(learned))
        self.code = code
        self.bytes = np.frombuffer(b"".join(tokens) or b" ", np.uint8)
        self.offsets = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
        self.sizes = np.diff(self.offsets)
        self.scores = np.array(scores or [0.0], np.float64)
        self.tokens = code.tokens_new(
            NATIVE_KINDS.index(kind), len(tokens), len(table), FIRST_LEARNED,
            address(self.bytes), address(self.offsets), address(self.scores),
        )  # fmt: skip
        if not self.tokens:
            raise MemoryError("out of memory for the token table")
        weakref.finalize(self, code.tokens_free, self.tokens)

    @classmethod
    def build(cls, kind: str, table: TokenTable, scores: Sequence[float]) -> NativeSampler | None:
        """The sampler, or None if its library is not available."""
        code = library("subword_sampling")
        return None if code is None else cls(declare_functions(code), kind, table, scores)

    def resample(self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array) -> tuple[IntArray, IntArray]:
        """Sample another segmentation of each of the sentences concatenated in `ids`."""
        old_ids = np.ascontiguousarray(ids, np.int32)
        old_lengths = np.ascontiguousarray(lengths, np.int64)
        seed_array = np.ascontiguousarray(seeds, np.uint64)
        assert old_lengths.min(initial=0) >= 0 and old_lengths.sum() == len(old_ids)
        assert len(seed_array) == len(old_lengths)
        room = int(self.sizes[old_ids].sum())  # every token writes at least one byte
        drawn, drawn_lengths = np.empty(room, np.int32), np.empty(len(old_lengths), np.int64)
        failed = self.code.resample(
            self.tokens, len(old_lengths), address(old_ids), address(old_lengths), alpha, run_scale(alpha),
            address(seed_array), address(drawn), address(drawn_lengths),
        )  # fmt: skip
        if failed:
            raise MemoryError(f"out of memory while sampling {len(old_lengths)} sentences of {room:,} bytes")
        return drawn[: drawn_lengths.sum()].copy(), drawn_lengths


def address(array: IntArray) -> int:
    """The address of an array's data."""
    return int(array.ctypes.data)


def declare_functions(code: ctypes.CDLL) -> ctypes.CDLL:
    """The library, with the types of its functions declared."""
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    code.tokens_new.argtypes, code.tokens_new.restype = (number,) * 4 + (pointer,) * 3, pointer
    code.tokens_free.argtypes, code.tokens_free.restype = (pointer,), None
    code.resample.argtypes = (
        pointer, ctypes.c_int64, pointer, pointer, ctypes.c_double, ctypes.c_double, pointer, pointer, pointer,
    )  # fmt: skip
    return code
