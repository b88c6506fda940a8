"""bfloat16 matrix products of our kernel against PyTorch's, in every layout and at every edge, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman.nn.kernels import cpu_bf16 as module
from dragoman.nn.kernels.cpu_bf16 import cpu_bf16_matmul, has_bfloat16_matmul
from dragoman.nn.linear import Linear, bfloat16_matmul, linear, matmul_into

needs_unit = pytest.mark.skipif(not has_bfloat16_matmul(), reason="no instructions for bfloat16, or no C compiler")
SIZES = st.integers(1, 100)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def rounded(x: Tensor) -> Tensor:
    """What is left of `x` in bfloat16, where sums lose nothing more."""
    return x.bfloat16().double()


def laid_out(shape: tuple[int, int], how: str, g: torch.Generator) -> Tensor:
    """A matrix whose rows, columns or neither are dense."""
    m, n = shape
    match how:
        case "rows":
            return torch.randn(m, n, generator=g)
        case "columns":
            return torch.randn(n, m, generator=g).T
        case "part":
            return torch.randn(m, n + 3, generator=g)[:, 2:-1]
        case _:
            return torch.randn(m, n, 2, generator=g)[..., 1]


@needs_unit
@settings(max_examples=60, deadline=None)
@given(SIZES, SIZES, st.integers(0, 100), *[st.sampled_from(["rows", "columns", "part", "neither"])] * 2, st.booleans())
def test_every_layout_and_edge(m: int, n: int, k: int, left: str, right: str, add: bool) -> None:
    g = torch.Generator().manual_seed(m * 10_000 + n * 100 + k)
    a, b = laid_out((m, k), left, g), laid_out((k, n), right, g)
    bias, out = torch.randn(n, generator=g), torch.randn(m, n, generator=g)
    expected = rounded(a) @ rounded(b) + bias.double() + add * out.double()
    cpu_bf16_matmul(a, b, out, bias, add)
    assert torch.allclose(out.double(), expected, atol=1e-5, rtol=1e-5)


@needs_unit
def test_large_results_that_go_past_the_caches() -> None:
    a, b = torch.randn(700, 70), torch.randn(70, 400)
    for width in (400, 411):  # the second is not aligned
        out = torch.zeros(700, width)[:, :400]
        cpu_bf16_matmul(a, b, out)
        assert torch.allclose(out.double(), rounded(a) @ rounded(b), atol=1e-5)


@needs_unit
def test_the_same_bits_with_any_number_of_threads() -> None:
    a, b = torch.randn(203, 1100), torch.randn(1100, 97)
    made = []
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        made.append(torch.empty(203, 97))
        cpu_bf16_matmul(a, b, made[-1])
    assert made[0].equal(made[1]) and made[0].equal(made[2])


@needs_unit
@pytest.mark.parametrize("shape", [(5, 7, 33), (13, 33), (33,), (0, 33)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_and_its_gradients(shape: tuple[int, ...], bias: bool) -> None:
    layer = Linear(33, 19, bias=bias)
    x = torch.randn(shape, requires_grad=True)
    with bfloat16_matmul():
        y = layer(x)
    dy = torch.randn(*shape[:-1], 19)
    found = torch.autograd.grad(y, [x, *layer.parameters()], dy)
    flat, flat_dy = rounded(x.detach().reshape(-1, 33)), rounded(dy.reshape(-1, 19))
    weight = rounded(layer.weight.detach())
    expected = [(flat_dy @ weight).reshape(shape), flat_dy.T @ flat]
    assert y.dtype == torch.float32
    assert torch.allclose(y.double().flatten(), (flat @ weight.T + (layer.bias if bias else 0)).flatten(), atol=1e-5)
    assert all(torch.allclose(f.double(), e, atol=1e-5) for f, e in zip(found, expected, strict=False))
    if bias:
        assert torch.allclose(found[2], dy.reshape(-1, 19).sum(0), atol=1e-5)


@needs_unit
def test_infinities_and_nans_stay() -> None:
    x = torch.ones(3, 40)
    x[0, 5], x[1, 6] = float("inf"), float("nan")
    out = torch.empty(3, 50)
    cpu_bf16_matmul(x, torch.ones(40, 50), out)
    assert out[0].isposinf().all() and out[1].isnan().all() and (out[2] == 40).all()


@needs_unit
def test_multiply_follows_the_precision() -> None:
    a, b = torch.randn(9, 21), torch.randn(21, 35)
    for precise in (True, False):
        out = torch.ones(9, 35)
        expected = a.double() @ b.double() if precise else rounded(a) @ rounded(b)
        for add in (False, True):
            if precise:
                matmul_into(a, b, out, add=add)
            else:
                with bfloat16_matmul():
                    matmul_into(a, b, out, add=add)
            assert torch.allclose(out.double(), expected * (1 + add), atol=1e-5)


@needs_unit
def test_compiled_code_keeps_the_kernel() -> None:
    x, weight = torch.randn(11, 33), torch.randn(19, 33)
    compiled = torch.compile(linear, fullgraph=True, backend="aot_eager")
    with bfloat16_matmul():
        assert compiled(x, weight).equal(linear(x, weight))
    assert compiled(x, weight).equal(nn.functional.linear(x, weight))  # outside, it is float32 again


def test_float32_outside_of_the_block() -> None:
    layer, x = Linear(33, 19), torch.randn(4, 33)
    assert layer(x).equal(nn.functional.linear(x, layer.weight, layer.bias))


def test_where_tiles_are_refused_dot_products_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(name: str, tiles: bool = True) -> SimpleNamespace:
        return SimpleNamespace(product=SimpleNamespace(tiles=tiles), request_tiles=lambda: -int(tiles))

    monkeypatch.setattr(module, "library", made)
    assert not module._kernel.__wrapped__().tiles
