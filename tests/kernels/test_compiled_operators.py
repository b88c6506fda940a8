"""What operators announce to the compiler against what their kernels give: it reads results as they were announced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

pytest.importorskip("triton")

from dragoman.nn import Packed, causal, look
from dragoman.nn.kernels import linear_relu, residual_norm
from dragoman.nn.kernels import packed_attention as packed
from dragoman.nn.kernels.gpu_matmul import tuned_matmul
from dragoman.nn.layout import joint_tiles
from dragoman.training.loss import fused_cross_entropy as fused_loss

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
N = 67


def of(*sizes: int) -> Tensor:
    return torch.randn(sizes, device=DEVICE)


def alike(operator: Callable[..., Any], *args: Any) -> Any:
    """What the operator gives, which is as it is announced."""
    with FakeTensorMode() as mode:
        announced = operator(*(mode.from_tensor(arg) if isinstance(arg, Tensor) else arg for arg in args))
    given = operator(*args)
    pairs = zip(*((x,) if isinstance(x, Tensor) else x for x in (given, announced)), strict=True)
    for real, said in pairs:
        assert (real.shape, real.stride(), real.dtype) == (said.shape, said.stride(), said.dtype)
    return given


@pytest.mark.parametrize(("d", "parts"), [(48, 5), (96, 3)])
def test_norms(d: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROWS_PER_PROGRAM", 16), ("WIDE_D_MODEL", 64), ("COLUMNS_PER_LOAD", 32)):
        monkeypatch.setattr(residual_norm, name, value)
    drawn, weight = torch.tensor([0.3, 0.8], device=DEVICE), of(d)
    _, *kept = alike(residual_norm.residual_norm, of(N, d), of(N, d), weight, of(d), drawn, 0.1, 1e-5)
    for other in (None, of(N, d)):
        *_, sums = alike(residual_norm.residual_norm_backward, of(N, d), other, *kept, weight, drawn, 0.1)
        assert sums.shape == (parts, 2, d)


def test_relu(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROWS_PER_PROGRAM", 32), ("ROWS_PER_TILE", 8), ("COLUMNS_PER_PROGRAM", 32)):
        monkeypatch.setattr(linear_relu, name, value)
    out = alike(linear_relu.linear_relu, of(N, 5), of(11, 5), of(11))
    assert alike(linear_relu.relu_backward, torch.randn_like(out), out)[1].shape == (3, 11)


def test_products() -> None:
    alike(tuned_matmul, of(N, 5), of(5, 7))
    alike(tuned_matmul, of(5, N).T, of(7, 5).T)


@pytest.mark.parametrize("gradient", [False, True])
def test_the_loss(gradient: bool) -> None:
    labels = torch.randint(0, 131, (N,), device=DEVICE)
    alike(fused_loss.projected_loss, of(N, 16), of(131, 16), labels, 0.1, 0, gradient)


@pytest.mark.parametrize("across", [False, True])
def test_attention(across: bool) -> None:
    lengths = torch.tensor([3, 40, 24])
    here = Packed.of(lengths.to(DEVICE), N, 40, joint_tiles(lengths, lengths, N, N)[0].to(DEVICE))
    tiled = look(here, here, causal, DEVICE).tiled
    assert tiled is not None
    bounds = (tiled.q_tiles, tiled.k_tiles, tiled.low, tiled.high, tiled.first, tiled.final)
    q, kv = (of(N, 32), of(N, 64)) if across else (of(N, 96), None)
    out, lse = alike(packed.packed_attention, q, kv, 2, True, *bounds)
    alike(packed.packed_attention_backward, torch.randn_like(out), out, lse, q, kv, 2, True, *bounds)
