"""The binding of cuBLASLt against a library of the same functions that computes on the host."""

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
from dragoman.native.cublas import WORKSPACE, CublasLt, Form

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


def product(lt: CublasLt, form: Form, left: Tensor, right: Tensor, out: Tensor, bias: Tensor | None = None) -> bool:
    way = lt.ways(form, 8, 0)[0]
    to_bias = 0 if bias is None else bias.data_ptr()
    return lt.multiply(form, way, left.data_ptr(), right.data_ptr(), out.data_ptr(), to_bias, 0x1000, 0, 0x2000)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("transposed", [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_all_ways_that_matrices_can_lie(transposed: tuple[bool, bool], relu: bool, lt: CublasLt) -> None:
    leading = (13, 17, 19)
    left_memory, left = held(M, K, leading[0], transposed[0])
    right_memory, right = held(K, N, leading[1], transposed[1])
    out, bias = torch.full((N, leading[2]), torch.nan), torch.randn(M)
    assert product(lt, Form(M, N, K, transposed, leading, "float32", relu), left_memory, right_memory, out, bias)
    want = (left.double() @ right.double() + relu * bias[:, None].double()).float()
    torch.testing.assert_close(out[:, :M].T, want.relu() if relu else want)
    assert out[:, M:].isnan().all()
    assert (address(lt, "last_workspace"), address(lt, "last_bytes")) == (0x1000, WORKSPACE)
    assert address(lt, "last_stream") == 0x2000


def test_ways_that_cannot_be_taken_are_not_offered_and_others_not_known(lt: CublasLt) -> None:
    form = Form(M, N, K, (False, False), (M, K, M), "bfloat16")
    ways = lt.ways(form, 8, 0)
    assert [way[0] for way in ways] == [0, 2, 3] and all(len(way) == 64 for way in ways)
    assert len(lt.ways(form, 1, 0)) == 1
    assert [lt.knows(form, way, 0) for way in ways] == [True, True, False]  # the last wants more memory beside
    unable = bytes((ctypes.c_uint64 * 8)(1, 0, 0, 0, 0, 0, 0, (1 << 64) - 2))  # which is a way, but not for this
    refused = [unable, bytes([1]) + ways[0][1:], b"\xff" * 64, ways[0][:-1], ways[0] + b"\0", b""]
    assert not any(lt.knows(form, way, 0) for way in refused)
    assert not lt.multiply(form, b"\xff" * 64, *[0] * 5, 0, 0) and not number(lt, "made").value


def test_a_form_that_the_library_refuses_has_no_ways(lt: CublasLt) -> None:
    good = lt.ways(Form(M, N, K, (False, False), (M, K, M), "bfloat16"), 8, 0)[0]
    narrow = Form(M, N, K, (False, False), (M - 1, K, M), "bfloat16")
    unknown = Form(M, N, K, (False, False), (M, K, M), "float16")  # to this one
    for form in (narrow, unknown):
        assert lt.ways(form, 8, 0) == [] and not lt.knows(form, good, 0)
        assert not lt.multiply(form, good, *[0] * 5, 0, 0)


def test_numbers_have_64_bits(lt: CublasLt) -> None:
    assert lt.version == 5_000_000_001
    form = Form(1 << 33, 3, 1 << 34, (True, False), (1 << 36, 1 << 35, 1 << 37), "bfloat16")
    asked, sizes = lt._described_as(form), (ctypes.c_uint64 * 3)()
    assert asked is not None
    found = []
    for layout in asked[1:]:
        lt.functions.sizes_of(layout, sizes)
        found.append(tuple(sizes))
    assert found == [(1 << 34, 1 << 33, 1 << 36), (1 << 34, 3, 1 << 35), (1 << 33, 3, 1 << 37)]


def test_each_gpu_has_a_handle_of_its_own(lt: CublasLt) -> None:
    form = Form(M, N, K, (False, False), (M, K, M), "float32")
    assert not number(lt, "handles").value  # nothing is begun on a GPU before it is wanted
    for device in (0, 1, 0, 1):
        number(lt, "current_device").value = device
        (way, *_) = lt.ways(form, 8, device)
        assert lt.knows(form, way, device)
    assert number(lt, "handles").value == 2


def test_a_gpu_on_which_the_library_does_not_start_is_left_alone(lt: CublasLt) -> None:
    form = Form(M, N, K, (False, False), (M, K, M), "float32")
    way = lt.ways(form, 8, 0)[0]
    number(lt, "refuses_to_start").value = 1
    assert lt.ways(form, 8, 1) == [] and not lt.knows(form, way, 1) and not lt.multiply(form, way, *[0] * 5, 1, 0)
    assert lt.knows(form, way, 0)


def test_two_threads_have_each_its_bias(lt: CublasLt, monkeypatch: pytest.MonkeyPatch) -> None:
    form = Form(M, N, K, (False, False), (M, K, M), "float32", relu=True)
    left, right = torch.zeros(K, M), torch.zeros(N, K)
    biases, outs = torch.randn(2, M).abs(), [torch.zeros(N, M) for _ in range(2)]
    lt.ways(form, 8, 0)
    real, others = lt._set, [Thread(target=lambda: product(lt, form, left, right, outs[1], biases[1]))]

    def interrupted(description: Any, name: int, value: Any) -> int:
        failed = real(description, name, value)
        if name == cublas.BIAS_POINTER and not others[0].ident:
            others[0].start()
            others[0].join(0.2)  # it waits until the first product is on its way
        return failed

    monkeypatch.setattr(lt, "_set", interrupted)
    assert product(lt, form, left, right, outs[0], biases[0])
    others[0].join()
    for out, bias in zip(outs, biases, strict=True):
        assert torch.equal(out, bias.expand(N, M))


def test_no_library_of_such_a_version() -> None:
    assert cublas.cublas("1.0") is None


def test_what_is_no_such_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda path, real=ctypes.CDLL: real(None))
    assert cublas.cublas("0.1") is None
