"""NVIDIA's cuBLASLt, asked by ctypes for all the ways in which it can make a product; PyTorch takes its first guess."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import nullcontext
from ctypes import Structure, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Final

WORKSPACE: Final = 32 << 20  # bytes that a product may use beside its result
ALIGNED: Final = 256  # bytes at which matrices begin, and a bias

KINDS: Final = {"float32": 0, "float16": 2, "bfloat16": 14}  # cudaDataType_t
COMPUTE_32F: Final = 68
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8  # of cublasLtMatmulDescAttributes_t
NO_EPILOGUE, RELU_AND_BIAS = 1, 6
MOST_WORKSPACE, REDUCTION = 1, 3  # of cublasLtMatmulPreferenceAttributes_t
IN_FLOAT32: Final = 2  # parts of a sum are added as they were computed, and in one order


@dataclass(frozen=True)
class Form:
    """A product in column-major order, `[m, n] = [m, k] [k, n]`: how its matrices lie, and what follows."""

    m: int
    n: int
    k: int
    transposed: tuple[bool, bool]  # whether the two lie as [k, m] and [n, k]
    leading: tuple[int, int, int]  # how far the columns of the three lie apart
    kind: str
    relu: bool = False  # max(0, product + bias)

    def __str__(self) -> str:
        """By which a way is remembered."""
        marks = "".join("NT"[flag] for flag in self.transposed)
        lead = ",".join(map(str, self.leading))
        return f"{self.m}x{self.n}x{self.k} {marks} {lead} {self.kind}{' relu' * self.relu}"


class _Found(Structure):
    _fields_ = (
        ("way", c_uint64 * 8),
        ("workspace", c_size_t),
        ("state", c_int),
        ("waves", c_float),
        ("reserved", c_int * 4),
    )


class CublasLt:
    """The library; every method that asks it something gives up quietly where it says no.

    `device` is the number of the GPU, which must be the current one: a handle is for the one that it was made on.
    """

    def __init__(self, path: str) -> None:
        self.functions = ctypes.CDLL(path)
        self.functions.cublasLtGetVersion.restype = c_size_t
        self.version = int(self.functions.cublasLtGetVersion())
        self._handles: dict[int, c_void_p | None] = {}
        self._described: dict[Form, Any] = {}
        self._bias = Lock()  # a description holds its address, and is one for all threads

    def ways(self, form: Form, most: int, device: int) -> list[bytes]:
        """To make such a product, the one that it guesses to be fastest first."""
        preference, reserve, sums = c_void_p(), c_size_t(WORKSPACE), c_int32(IN_FLOAT32)
        if self.functions.cublasLtMatmulPreferenceCreate(byref(preference)):
            return []
        found, count = (_Found * most)(), c_int()
        try:
            for name, value in ((MOST_WORKSPACE, reserve), (REDUCTION, sums)):
                size = c_size_t(ctypes.sizeof(value))
                self.functions.cublasLtMatmulPreferenceSetAttribute(preference, c_int(name), byref(value), size)
            handle, asked = self._handle(device), self._described_as(form)
            if handle is None or asked is None:
                return []
            failed = self.functions.cublasLtMatmulAlgoGetHeuristic(
                handle, *asked, asked[-1], preference, c_int(most), found, byref(count)
            )
        finally:
            self.functions.cublasLtMatmulPreferenceDestroy(preference)
        return [] if failed else [bytes(way.way) for way in found[: count.value] if way.state == 0]

    def knows(self, form: Form, way: bytes, device: int) -> bool:
        """Whether it still has this way, and for this form."""
        handle, asked, found = self._handle(device), self._described_as(form), _Found()
        if handle is None or asked is None or len(way) != ctypes.sizeof(found.way):
            return False
        algorithm = (c_uint64 * 8).from_buffer_copy(way)
        failed = self.functions.cublasLtMatmulAlgoCheck(handle, *asked, asked[-1], byref(algorithm), byref(found))
        return not failed and found.state == 0 and found.workspace <= WORKSPACE

    def multiply(
        self,
        form: Form,
        way: bytes,
        left: int,
        right: int,
        out: int,
        bias: int,
        workspace: int,
        device: int,
        stream: int,
    ) -> bool:
        """Put the product of what lies at these addresses on the stream; whether it could."""
        handle, asked = self._handle(device), self._described_as(form)
        if handle is None or asked is None:
            return False
        description, of_left, of_right, of_out = asked
        one, nothing = c_float(1), c_float(0)
        with self._bias if form.relu else nullcontext():
            if form.relu and self._set(description, BIAS_POINTER, c_uint64(bias)):
                return False
            return not self.functions.cublasLtMatmul(
                handle, description, byref(one), c_void_p(left), of_left, c_void_p(right), of_right,
                byref(nothing), c_void_p(out), of_out, c_void_p(out), of_out,
                byref((c_uint64 * 8).from_buffer_copy(way)), c_void_p(workspace), c_size_t(WORKSPACE), c_void_p(stream),
            )  # fmt: skip

    def _handle(self, device: int) -> c_void_p | None:
        """Of this GPU, made once; None where the library does not start on it."""
        if device not in self._handles:
            handle = c_void_p()
            self._handles[device] = None if self.functions.cublasLtCreate(byref(handle)) else handle
        return self._handles[device]

    def _described_as(self, form: Form) -> tuple[c_void_p, c_void_p, c_void_p, c_void_p] | None:
        """The form in the library's own terms, made once; None where it has none for it."""
        if form not in self._described:
            made = list(self._describe(form))
            self._described[form] = tuple(made) if all(made) else None
        described: tuple[c_void_p, c_void_p, c_void_p, c_void_p] | None = self._described[form]
        return described

    def _describe(self, form: Form) -> Iterator[c_void_p | None]:
        description = c_void_p()
        failed = self.functions.cublasLtMatmulDescCreate(
            byref(description), c_int(COMPUTE_32F), c_int(KINDS["float32"])
        )
        for name, value in (
            (TRANSPOSE_A, form.transposed[0]),
            (TRANSPOSE_B, form.transposed[1]),
            (EPILOGUE, RELU_AND_BIAS if form.relu else NO_EPILOGUE),
        ):
            failed = failed or self._set(description, name, c_int32(value))
        yield None if failed else description
        sizes = [(form.m, form.k), (form.k, form.n), (form.m, form.n)]
        for (rows, columns), turned, leading in zip(sizes, (*form.transposed, False), form.leading, strict=True):
            layout, lying = c_void_p(), (columns, rows) if turned else (rows, columns)
            failed = self.functions.cublasLtMatrixLayoutCreate(
                byref(layout), c_int(KINDS[form.kind]), *map(c_uint64, lying), c_int64(leading)
            )
            yield None if failed else layout

    def _set(self, description: c_void_p, name: int, value: c_int32 | c_uint64) -> int:
        size = c_size_t(ctypes.sizeof(value))
        return int(self.functions.cublasLtMatmulDescSetAttribute(description, c_int(name), byref(value), size))


@cache
def cublas(cuda_version: str) -> CublasLt | None:
    """The library of this version of CUDA, which PyTorch has loaded; None where there is none."""
    try:
        return CublasLt(f"libcublasLt.so.{cuda_version.partition('.')[0]}")
    except (OSError, AttributeError):
        return None
