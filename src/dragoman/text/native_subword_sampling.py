"""Sampling for a whole batch in C (native/subword_sampling/), which draws what text/subword_sampling.py draws."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from typing import Final

import numpy as np

from dragoman.arrays import IntArray, Uint64Array
from dragoman.native import library
from dragoman.text.subword_sampling import run_scale
from dragoman.text.token_table import FIRST_LEARNED, TokenTable

KINDS: Final = ("bpe", "unigram", "wordpiece")  # numbered as in C


class NativeSampler:
    """The tokens of a vocabulary in C's own tables. `resample` may be called from several threads at once."""

    def __init__(self, code: ctypes.CDLL, kind: str, table: TokenTable, scores: Sequence[float]) -> None:
        learned = table.written[FIRST_LEARNED:]
        characters = {c for token in learned for c in token.decode()} if kind == "bpe" else set()
        # A character that has no token of its own, as part of one; what is left of it in the end is spelled in bytes.
        tokens = table.written + sorted({c.encode() for c in characters}.difference(learned))
        self.code = code
        self.bytes = np.frombuffer(b"".join(tokens) or b" ", np.uint8)
        self.offsets = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
        self.sizes = np.diff(self.offsets)
        self.scores = np.array(scores or [0.0], np.float64)
        self.tokens = code.tokens_new(
            KINDS.index(kind), len(tokens), len(table), FIRST_LEARNED,
            address(self.bytes), address(self.offsets), address(self.scores),
        )  # fmt: skip
        if not self.tokens:
            raise MemoryError("there is no memory for the table of tokens")
        weakref.finalize(self, code.tokens_free, self.tokens)

    @classmethod
    def build(cls, kind: str, table: TokenTable, scores: Sequence[float]) -> NativeSampler | None:
        """None where there is no C compiler; a product and a sum are not fused, so that they are Python's."""
        code = library("subword_sampling", "-ffp-contract=off")
        return None if code is None else cls(declared(code), kind, table, scores)

    def resample(self, ids: IntArray, lengths: IntArray, alpha: float, seeds: Uint64Array) -> tuple[IntArray, IntArray]:
        """Other tokens of the sentences that lie end to end in `ids`."""
        given = np.ascontiguousarray(ids, np.int32)
        given_lengths = np.ascontiguousarray(lengths, np.int64)
        given_seeds = np.ascontiguousarray(seeds, np.uint64)
        assert given_lengths.min(initial=0) >= 0 and given_lengths.sum() == len(given)
        assert len(given_seeds) == len(given_lengths)
        room = int(self.sizes[given].sum())  # no new token writes less than a byte
        drawn, drawn_lengths = np.empty(room, np.int32), np.empty(len(given_lengths), np.int64)
        failed = self.code.resample(
            self.tokens, len(given_lengths), address(given), address(given_lengths), alpha, run_scale(alpha),
            address(given_seeds), address(drawn), address(drawn_lengths),
        )  # fmt: skip
        if failed:
            raise MemoryError(f"there is no memory to sample {len(given_lengths)} sentences of {room:,} bytes")
        return drawn[: drawn_lengths.sum()].copy(), drawn_lengths


def address(array: IntArray) -> int:
    """Where its numbers lie."""
    return int(array.ctypes.data)


def declared(code: ctypes.CDLL) -> ctypes.CDLL:
    """With the types of its functions."""
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    code.tokens_new.argtypes, code.tokens_new.restype = (number,) * 4 + (pointer,) * 3, pointer
    code.tokens_free.argtypes, code.tokens_free.restype = (pointer,), None
    code.resample.argtypes = (
        pointer, ctypes.c_int64, pointer, pointer, ctypes.c_double, ctypes.c_double, pointer, pointer, pointer,
    )  # fmt: skip
    return code
