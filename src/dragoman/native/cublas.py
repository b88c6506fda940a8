"""ctypes bindings for NVIDIA's cuBLASLt, to choose among its algorithms for a product; PyTorch takes the first."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import nullcontext
from ctypes import Structure, byref, c_float, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Final

WORKSPACE_BYTES: Final = 32 << 20  # scratch memory that a product may use
MATRIX_ALIGNMENT: Final = 256  # of matrices and biases, in bytes

DATA_TYPES: Final = {"float32": 0, "float16": 2, "bfloat16": 14}  # cudaDataType_t
COMPUTE_32F: Final = 68
TRANSPOSE_A, TRANSPOSE_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8  # of cublasLtMatmulDescAttributes_t
NO_EPILOGUE, RELU_AND_BIAS = 1, 6
MAX_WORKSPACE, REDUCTION = 1, 3  # of cublasLtMatmulPreferenceAttributes_t
REDUCE_IN_FLOAT32: Final = 2  # partial sums are added in full precision and in a fixed order


@dataclass(frozen=True)
class MatmulProblem:
    """A product in column-major order, `[m, n] = [m, k] [k, n]`: the layout of its matrices, and the epilogue."""

    m: int
    n: int
    k: int
    transposed: tuple[bool, bool]  # whether the operands are stored as [k, m] and [n, k]
    leading: tuple[int, int, int]  # leading dimensions of the three matrices
    dtype: str
    relu: bool = False  # max(0, product + bias)

    def __str__(self) -> str:
        """The key of this problem in caches and files."""
        layout = "".join("NT"[flag] for flag in self.transposed)
        leading = ",".join(map(str, self.leading))
        return f"{self.m}x{self.n}x{self.k} {layout} {leading} {self.dtype}{' relu' * self.relu}"


class _HeuristicResult(Structure):
    _fields_ = (
        *(("algorithm", c_uint64 * 8), ("workspace", c_size_t), ("state", c_int), ("waves", c_float)),
        ("reserved", c_int * 4),
    )


class CublasLt:
    """The library; on errors, methods return False, None or an empty result instead of raising.

    `device` is the index of the GPU, which must be the current one: a handle belongs to the GPU it was created on.
    """

    def __init__(self, path: str) -> None:
        self.functions = ctypes.CDLL(path)
        self.functions.cublasLtGetVersion.restype = c_size_t
        self.version = int(self.functions.cublasLtGetVersion())
        self._handles: dict[int, c_void_p | None] = {}
        self._descriptions: dict[MatmulProblem, Any] = {}
        self._bias = Lock()  # threads share a descriptor, which holds the address of the bias

    def algorithms(self, problem: MatmulProblem, limit: int, device: int) -> list[bytes]:
        """Up to `limit` algorithms for this product; first the one that the library expects to be fastest."""
        preference, reserve, sums = c_void_p(), c_size_t(WORKSPACE_BYTES), c_int32(REDUCE_IN_FLOAT32)
        if self.functions.cublasLtMatmulPreferenceCreate(byref(preference)):
            return []
        found, count = (_HeuristicResult * limit)(), c_int()
        try:
            for name, value in ((MAX_WORKSPACE, reserve), (REDUCTION, sums)):
                size = c_size_t(ctypes.sizeof(value))
                self.functions.cublasLtMatmulPreferenceSetAttribute(preference, c_int(name), byref(value), size)
            handle, description = self._handle(device), self._description(problem)
            if handle is None or description is None:
                return []
            failed = self.functions.cublasLtMatmulAlgoGetHeuristic(
                handle, *description, description[-1], preference, c_int(limit), found, byref(count)
            )
        finally:
            self.functions.cublasLtMatmulPreferenceDestroy(preference)
        return [] if failed else [bytes(result.algorithm) for result in found[: count.value] if result.state == 0]

    def supports(self, problem: MatmulProblem, algorithm: bytes, device: int) -> bool:
        """Whether the library supports this algorithm for this problem."""
        handle, description, found = self._handle(device), self._description(problem), _HeuristicResult()
        if handle is None or description is None or len(algorithm) != ctypes.sizeof(found.algorithm):
            return False
        checked = (c_uint64 * 8).from_buffer_copy(algorithm)
        failed = self.functions.cublasLtMatmulAlgoCheck(
            handle, *description, description[-1], byref(checked), byref(found)
        )
        return not failed and found.state == 0 and found.workspace <= WORKSPACE_BYTES

    def multiply(
        self,
        problem: MatmulProblem,
        algorithm: bytes,
        left: int,
        right: int,
        out: int,
        bias: int,
        workspace: int,
        device: int,
        stream: int,
    ) -> bool:
        """Enqueue the product of the matrices at these addresses; return whether the library accepted it."""
        handle, described = self._handle(device), self._description(problem)
        if handle is None or described is None:
            return False
        description, of_left, of_right, of_out = described
        one, zero = c_float(1), c_float(0)
        with self._bias if problem.relu else nullcontext():
            if problem.relu and self._set(description, BIAS_POINTER, c_uint64(bias)):
                return False
            return not self.functions.cublasLtMatmul(
                handle, description, byref(one), c_void_p(left), of_left, c_void_p(right), of_right,
                byref(zero), c_void_p(out), of_out, c_void_p(out), of_out,
                byref((c_uint64 * 8).from_buffer_copy(algorithm)), c_void_p(workspace), c_size_t(WORKSPACE_BYTES),
                c_void_p(stream),
            )  # fmt: skip

    def _handle(self, device: int) -> c_void_p | None:
        """The handle for this GPU, created once; None if the library cannot be initialized on it."""
        if device not in self._handles:
            handle = c_void_p()
            self._handles[device] = None if self.functions.cublasLtCreate(byref(handle)) else handle
        return self._handles[device]

    def _description(self, problem: MatmulProblem) -> tuple[c_void_p, c_void_p, c_void_p, c_void_p] | None:
        """The library's descriptors of the product and its matrices, created once; None if it cannot create them."""
        if problem not in self._descriptions:
            created = list(self._describe(problem))
            self._descriptions[problem] = tuple(created) if all(created) else None
        described: tuple[c_void_p, c_void_p, c_void_p, c_void_p] | None = self._descriptions[problem]
        return described

    def _describe(self, problem: MatmulProblem) -> Iterator[c_void_p | None]:
        description = c_void_p()
        failed = self.functions.cublasLtMatmulDescCreate(
            byref(description), c_int(COMPUTE_32F), c_int(DATA_TYPES["float32"])
        )
        for name, value in (
            (TRANSPOSE_A, problem.transposed[0]),
            (TRANSPOSE_B, problem.transposed[1]),
            (EPILOGUE, RELU_AND_BIAS if problem.relu else NO_EPILOGUE),
        ):
            failed = failed or self._set(description, name, c_int32(value))
        yield None if failed else description
        sizes = [(problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n)]
        transposed = (*problem.transposed, False)
        for (rows, columns), swapped, leading in zip(sizes, transposed, problem.leading, strict=True):
            layout, shape = c_void_p(), (columns, rows) if swapped else (rows, columns)
            failed = self.functions.cublasLtMatrixLayoutCreate(
                byref(layout), c_int(DATA_TYPES[problem.dtype]), *map(c_uint64, shape), c_int64(leading)
            )
            yield None if failed else layout

    def _set(self, description: c_void_p, name: int, value: c_int32 | c_uint64) -> int:
        size = c_size_t(ctypes.sizeof(value))
        return int(self.functions.cublasLtMatmulDescSetAttribute(description, c_int(name), byref(value), size))


@cache
def cublas(cuda_version: str) -> CublasLt | None:
    """The library of this version of CUDA, as PyTorch has loaded it, or None."""
    try:
        return CublasLt(f"libcublasLt.so.{cuda_version.partition('.')[0]}")
    except (OSError, AttributeError):
        return None
