"""Matrix products in half precision on a GPU, each by the cuBLASLt algorithm that is fastest for its shape.

PyTorch uses the algorithm that NVIDIA's heuristic suggests. Here the first product of a shape times the candidates and
stores the fastest, for later runs too: a resumed run then computes the same sums.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Final

import torch
from torch import Tensor

from dragoman.native.cublas import MATRIX_ALIGNMENT, WORKSPACE_BYTES, CublasLt, MatmulProblem, cublas

if TYPE_CHECKING:
    from dragoman.native.algorithm_file import AlgorithmFile

MAX_ALGORITHMS: Final = 8  # algorithms to time
TIMING_ROUNDS, TIMING_REPEATS = 3, 4
WORTHWHILE: Final = 0.98  # an algorithm replaces the suggested one only if it takes less than this share of its time
MIN_MULTIPLICATIONS: Final = 1 << 27  # smaller products gain nothing
HALF_DTYPES: Final = {torch.bfloat16: "bfloat16", torch.float16: "float16"}


_workspaces: dict[tuple[int, int], Tensor] = {}
_chosen: dict[tuple[int, str], bytes | None] = {}  # by GPU and problem, in this process
_tuning: list[AlgorithmFile] = []  # files of the open blocks, in any thread
_tuning_lock = Lock()


@contextmanager
def tuning(algorithms: AlgorithmFile) -> Iterator[None]:
    """Choose the fastest algorithm for products of new shapes in this block; elsewhere PyTorch computes them.

    Timing takes milliseconds per shape, which pays off only for shapes that recur. Results of other runs are read only
    when a block starts, so concurrent runs cannot change this run's sums.
    """
    with _tuning_lock:  # the backward pass has its own thread, but belongs to this block too
        _tuning.append(algorithms)
    try:
        yield
    finally:
        with _tuning_lock:
            _tuning.remove(algorithms)


@cache
def cublas_lt() -> CublasLt | None:
    """NVIDIA's library, if PyTorch has it and `DRAGOMAN_PRODUCTS=0` does not turn it off."""
    if os.environ.get("DRAGOMAN_PRODUCTS", "1") == "0" or torch.version.cuda is None:
        return None
    return cublas(torch.version.cuda)


@cache
def _machine(device: int) -> str:
    lt = cublas_lt()
    version = lt.version if lt is not None else 0
    return f"{torch.cuda.get_device_properties(device).name}, cuBLASLt {version}"


def fastest(times: list[float]) -> int:
    """The index of the algorithm to use; 0 is the library's suggestion."""
    best = min(range(len(times)), key=times.__getitem__)
    return best if times[best] < WORTHWHILE * times[0] else 0


def matmul(left: Tensor, right: Tensor, out: Tensor | None = None, bias: Tensor | None = None) -> Tensor:
    """`left [M, K] right [K, N]`, with a `bias` max(0, product + bias); computed by PyTorch where nothing is gained."""
    if out is None:
        out = left.new_empty(left.shape[0], right.shape[1])
    problem = _problem(left, right, out, bias)
    lt = cublas_lt() if problem is not None else None
    if lt is not None and problem is not None:
        run: Callable[[bytes], bool] = lambda algorithm: _run(lt, problem, algorithm, left, right, out, bias)  # noqa: E731
        algorithm = _algorithm(lt, problem, left.device.index, run)
        if algorithm is not None and run(algorithm):
            return out
    if bias is not None:
        return torch._addmm_activation(bias, left, right, out=out)
    return torch.mm(left, right, out=out)


def _problem(left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None) -> MatmulProblem | None:
    """The product in cuBLASLt's column-major order, hence mirrored; None if small or in an unsupported layout."""
    (m, k), n = left.shape, right.shape[1]
    dtype, matrices = HALF_DTYPES.get(left.dtype), (right, left, out)
    tensors = matrices if bias is None else (*matrices, bias)
    alike = all(x.is_cuda and x.dtype == left.dtype and x.device == left.device for x in tensors)
    small = m * n * k < MIN_MULTIPLICATIONS
    if dtype is None or not alike or small or torch.cuda.current_device() != left.device.index:
        return None
    if right.shape[0] != k or out.shape != (m, n) or (bias is not None and bias.shape != (n,)):
        return None  # PyTorch broadcasts it, or reports the error
    if out.stride(1) != 1 or (bias is not None and bias.stride(0) != 1):
        return None
    if any(1 not in x.stride() for x in matrices) or any(x.data_ptr() % MATRIX_ALIGNMENT for x in tensors):
        return None
    transposed = (right.stride(1) != 1, left.stride(1) != 1)
    lines = (k if transposed[0] else n, m if transposed[1] else k, n)
    leading = (right.stride(int(transposed[0])), left.stride(int(transposed[1])), out.stride(0))
    if any(stride < line for stride, line in zip(leading, lines, strict=True)):
        return None  # rows overlap
    return MatmulProblem(n, m, k, transposed, leading, dtype, bias is not None)


def _algorithm(lt: CublasLt, problem: MatmulProblem, device: int, run: Callable[[bytes], bool]) -> bytes | None:
    """The algorithm to use; None leaves the product to PyTorch. Nothing is timed while a CUDA graph is recorded."""
    key = (device, str(problem))
    if key not in _chosen:
        if not _tuning or torch.cuda.is_current_stream_capturing():
            return None
        cached, machine = _tuning[-1], _machine(device)
        found = cached.get(machine, str(problem))
        if found is None or not lt.supports(problem, found, device):
            working = [algorithm for algorithm in lt.algorithms(problem, MAX_ALGORITHMS, device) if run(algorithm)]
            found = working[fastest(_milliseconds(run, working))] if working else None
            found = cached.add(machine, str(problem), found, lambda other: lt.supports(problem, other, device))
        _chosen[key] = found
    return _chosen[key]


def _milliseconds(run: Callable[[bytes], bool], algorithms: list[bytes]) -> list[float]:
    """The best time of each over several rounds; every round runs all of them, because the GPU's clock drifts."""
    best = [float("inf")] * len(algorithms)
    for _ in range(TIMING_ROUNDS):
        for i, algorithm in enumerate(algorithms):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
            start.record()
            for _ in range(TIMING_REPEATS):
                run(algorithm)
            end.record()
            end.synchronize()
            best[i] = min(best[i], start.elapsed_time(end))
    return best


def _run(
    lt: CublasLt,
    problem: MatmulProblem,
    algorithm: bytes,
    left: Tensor,
    right: Tensor,
    out: Tensor,
    bias: Tensor | None,
) -> bool:
    stream = torch.cuda.current_stream(left.device).cuda_stream
    key = (left.device.index, stream)
    if key not in _workspaces:  # one per stream, because products of two streams may run at once
        _workspaces[key] = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=left.device)
    return lt.multiply(
        problem, algorithm, right.data_ptr(), left.data_ptr(), out.data_ptr(), 0 if bias is None else bias.data_ptr(),
        _workspaces[key].data_ptr(), *key,
    )  # fmt: skip


@torch.library.custom_op("dragoman::tuned_matmul", mutates_args=(), tags=(torch.Tag.flexible_layout,))
def tuned_matmul(left: Tensor, right: Tensor) -> Tensor:
    """`left [M, K] right [K, N]`; the compiler replaces PyTorch's products with it."""
    return matmul(left, right)


@tuned_matmul.register_fake
def _(left: Tensor, right: Tensor) -> Tensor:
    return left.new_empty(left.shape[0], right.shape[1])
