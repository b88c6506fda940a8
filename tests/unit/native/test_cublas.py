"""The cuBLASLt bindings against a mock library that computes on the host."""

from __future__ import annotations

import ctypes
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from host_cublas import address, number, on_the_host
from torch import Tensor

from dragoman.native import cublas
from dragoman.native.cublas import WORKSPACE_BYTES, CublasLt, MatmulProblem

M, N, K = 5, 7, 11  # in columns, as the library counts


@pytest.fixture
def lt(tmp_path: Path) -> CublasLt:
    return on_the_host(tmp_path)


def held(rows: int, columns: int, leading: int, transposed: bool) -> tuple[Tensor, Tensor]:
    """Memory for `[rows, columns]` that lies column by column, or row by row, and the matrix in it."""
    long, many = (columns, rows) if transposed else (rows, columns)
    memory = torch.randn(many, leading)
    inside = memory[:, :long]
    return memory, inside if transposed else inside.T


def product(
    lt: CublasLt, problem: MatmulProblem, left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None = None
) -> bool:
    algorithm = lt.algorithms(problem, 8, 0)[0]
    to_bias = 0 if bias is None else bias.data_ptr()
    return lt.multiply(
        problem, algorithm, left.data_ptr(), right.data_ptr(), out.data_ptr(), to_bias, 0x1000, 0, 0x2000
    )


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_all_layouts(transposed: tuple[bool, bool], relu: bool, lt: CublasLt) -> None:
    leading = (13, 17, 19)
    left_memory, left = held(M, K, leading[0], transposed[0])
    right_memory, right = held(K, N, leading[1], transposed[1])
    out, bias = torch.full((N, leading[2]), torch.nan), torch.randn(M)
    assert product(
        lt, MatmulProblem(M, N, K, transposed, leading, "float32", relu), left_memory, right_memory, out, bias
    )
    want = (left.double() @ right.double() + relu * bias[:, None].double()).float()
    torch.testing.assert_close(out[:, :M].T, want.relu() if relu else want)
    assert out[:, M:].isnan().all()
    assert (address(lt, "last_workspace"), address(lt, "last_bytes")) == (0x1000, WORKSPACE_BYTES)
    assert address(lt, "last_stream") == 0x2000


def test_algorithms_that_cannot_run_are_not_offered_and_others_not_supported(lt: CublasLt) -> None:
    problem = MatmulProblem(M, N, K, (False, False), (M, K, M), "bfloat16")
    found = lt.algorithms(problem, 8, 0)
    assert [each[0] for each in found] == [0, 2, 3] and all(len(each) == 64 for each in found)
    assert len(lt.algorithms(problem, 1, 0)) == 1
    assert [lt.supports(problem, each, 0) for each in found] == [
        True,
        True,
        False,
    ]  # the last wants more memory beside
    unable = bytes((ctypes.c_uint64 * 8)(1, 0, 0, 0, 0, 0, 0, (1 << 64) - 2))  # which is an algorithm, but not for this
    refused = [unable, bytes([1]) + found[0][1:], b"\xff" * 64, found[0][:-1], found[0] + b"\0", b""]
    assert not any(lt.supports(problem, each, 0) for each in refused)
    assert not lt.multiply(problem, b"\xff" * 64, *[0] * 5, 0, 0) and not number(lt, "made").value


def test_a_problem_that_the_library_rejects_has_no_algorithms(lt: CublasLt) -> None:
    good = lt.algorithms(MatmulProblem(M, N, K, (False, False), (M, K, M), "bfloat16"), 8, 0)[0]
    narrow = MatmulProblem(M, N, K, (False, False), (M - 1, K, M), "bfloat16")
    unknown = MatmulProblem(M, N, K, (False, False), (M, K, M), "float16")  # to this one
    for problem in (narrow, unknown):
        assert lt.algorithms(problem, 8, 0) == [] and not lt.supports(problem, good, 0)
        assert not lt.multiply(problem, good, *[0] * 5, 0, 0)


def test_numbers_have_64_bits(lt: CublasLt) -> None:
    assert lt.version == 5_000_000_001
    problem = MatmulProblem(1 << 33, 3, 1 << 34, (True, False), (1 << 36, 1 << 35, 1 << 37), "bfloat16")
    description, sizes = lt._description(problem), (ctypes.c_uint64 * 3)()
    assert description is not None
    found = []
    for layout in description[1:]:
        lt.functions.sizes_of(layout, sizes)
        found.append(tuple(sizes))
    assert found == [(1 << 34, 1 << 33, 1 << 36), (1 << 34, 3, 1 << 35), (1 << 33, 3, 1 << 37)]


def test_each_gpu_has_a_handle_of_its_own(lt: CublasLt) -> None:
    problem = MatmulProblem(M, N, K, (False, False), (M, K, M), "float32")
    assert not number(lt, "handles").value  # nothing is begun on a GPU before it is wanted
    for device in (0, 1, 0, 1):
        number(lt, "current_device").value = device
        (algorithm, *_) = lt.algorithms(problem, 8, device)
        assert lt.supports(problem, algorithm, device)
    assert number(lt, "handles").value == 2


def test_a_gpu_on_which_the_library_does_not_start_is_left_alone(lt: CublasLt) -> None:
    problem = MatmulProblem(M, N, K, (False, False), (M, K, M), "float32")
    algorithm = lt.algorithms(problem, 8, 0)[0]
    number(lt, "refuses_to_start").value = 1
    assert (
        lt.algorithms(problem, 8, 1) == []
        and not lt.supports(problem, algorithm, 1)
        and not lt.multiply(problem, algorithm, *[0] * 5, 1, 0)
    )
    assert lt.supports(problem, algorithm, 0)


def test_two_threads_have_each_its_bias(lt: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = MatmulProblem(M, N, K, (False, False), (M, K, M), "float32", relu=True)
    left, right = torch.zeros(K, M), torch.zeros(N, K)
    biases, outs = torch.randn(2, M).abs(), [torch.zeros(N, M) for _ in range(2)]
    lt.algorithms(problem, 8, 0)
    real, others = lt._set, [Thread(target=lambda: product(lt, problem, left, right, outs[1], biases[1]))]

    def interrupted(description: Any, name: int, value: Any) -> int:
        failed = real(description, name, value)
        if name == cublas.BIAS_POINTER and not others[0].ident:
            others[0].start()
            others[0].join(0.2)  # it waits until the first product is on its algorithm
        return failed

    monkeypatch.setattr(lt, "_set", interrupted)
    assert product(lt, problem, left, right, outs[0], biases[0])
    others[0].join()
    for out, bias in zip(outs, biases, strict=True):
        assert torch.equal(out, bias.expand(N, M))


def test_no_library_of_such_a_version() -> None:
    assert cublas.cublas("1.0") is None


def test_what_is_no_such_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda path, real=ctypes.CDLL: real(None))
    assert cublas.cublas("0.1") is None
