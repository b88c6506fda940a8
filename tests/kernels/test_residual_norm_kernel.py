"""LayerNorm(x + Dropout(y)) as one operator, against PyTorch's parts."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytest.importorskip("triton")

from dragoman.nn.dropout import hashed_mask
from dragoman.nn.kernels import residual_norm as module
from dragoman.nn.kernels import uses_triton
from dragoman.nn.kernels.residual_norm import residual_norm, residual_norm_backward

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
SIZES = [(1, 1), (7, 5), (9, 64), (67, 71), (13, 96)]  # the last two need chunks, the middle one fills its tile


def made(n: int, d: int) -> list[Tensor]:
    """x, y, weight, bias, and the gradients of the output by two ways."""
    torch.manual_seed(n + d)
    return [torch.randn(s, device=DEVICE) for s in ((n, d), (n, d), (d,), (d,), (n, d), (n, d))]


def expected(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, drawn: Tensor, p: float) -> Tensor:
    dropped = torch.where(hashed_mask(y, p, drawn), y / (1 - p), 0.0) if p else y
    return F.layer_norm(x + dropped, x.shape[1:], weight, bias, 1e-5)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_PROGRAM", 16)
    monkeypatch.setattr(module, "COLUMNS_PER_LOAD", 32)


@pytest.mark.parametrize("p", [0.0, 0.3])
@pytest.mark.parametrize(("n", "d"), SIZES)
def test_values_and_all_gradients(n: int, d: int, p: float) -> None:
    x, y, weight, bias, grad, _ = made(n, d)
    drawn = torch.tensor([0.37, 0.81], device=DEVICE)
    assert uses_triton(y)
    leaves = [t.requires_grad_() for t in (x, y, weight, bias)]
    exact = [t.detach().double().requires_grad_() for t in leaves]
    ours, theirs = residual_norm(*leaves, drawn, p, 1e-5)[0], expected(*exact, drawn, p)
    torch.testing.assert_close(ours.double(), theirs, atol=2e-5, rtol=2e-5)
    found = torch.autograd.grad(ours, leaves, grad)
    for a, b in zip(found, torch.autograd.grad(theirs, exact, grad.double()), strict=True):
        torch.testing.assert_close(a.double(), b, atol=2e-4 if d > 1 else 2e-2, rtol=2e-4)


def test_two_gradients_are_their_sum_and_parts_add_up() -> None:
    n, d, p = 67, 71, 0.25
    x, y, weight, bias, grad, other = made(n, d)
    drawn = torch.tensor([0.11, 0.59], device=DEVICE)
    _, *kept = residual_norm(x, y, weight, bias, drawn, p, 1e-5)
    apart = residual_norm_backward(grad, other, *kept, weight, drawn, p)
    at_once = residual_norm_backward(grad + other, None, *kept, weight, drawn, p)
    assert apart[2].shape == (-(-n // 16), 2, d)
    for a, b in zip(apart, at_once, strict=True):
        assert torch.equal(a, b)
    torch.testing.assert_close(apart[2].sum(0)[1], (grad + other).sum(0), atol=1e-4, rtol=1e-4)


def test_what_falls_is_what_the_hash_says_in_both_passes() -> None:
    n, d, p = 37, 40, 0.4
    _, y, weight, bias, grad, _ = made(n, d)
    drawn = torch.tensor([0.93, 0.002], device=DEVICE)
    out, total, mean, slope = residual_norm(torch.zeros_like(y), y, weight, bias, drawn, p, 1e-5)
    _, dy, _ = residual_norm_backward(grad, None, total, mean, slope, weight, drawn, p)
    kept = hashed_mask(y, p, drawn)
    assert 0.3 < float((~kept).float().mean()) < 0.5
    assert torch.equal(total != 0, kept)
    assert torch.equal(dy != 0, kept)
    assert out.isfinite().all()


@pytest.mark.parametrize("d", [256, 512, 640, 1024])
def test_bfloat16_is_as_near_as_its_digits(d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the sizes of training
    n, p = 131, 0.1
    x, y, weight, bias, grad, other = made(n, d)
    drawn = torch.tensor([0.37, 0.81], device=DEVICE)
    half = [t.bfloat16() for t in (x, y, grad, other)]
    exact = [t.double().requires_grad_() for t in (*half[:2], weight, bias)]
    theirs = expected(*exact, drawn, p)
    wanted = torch.autograd.grad(theirs, exact, half[2].double() + half[3].double())
    out, *kept = residual_norm(*half[:2], weight, bias, drawn, p, 1e-5)
    dx, dy, parts = residual_norm_backward(*half[2:], *kept, weight, drawn, p)
    assert out.dtype == dx.dtype == dy.dtype == torch.bfloat16
    for found, exactly in zip((out, dx, dy, *parts.sum(0)), (theirs, *wanted), strict=True):
        assert float((found.double() - exactly).detach().norm() / exactly.detach().norm()) < 1e-2
    again = residual_norm_backward(*half[2:], *kept, weight, drawn, p)
    assert all(torch.equal(a, b) for a, b in zip(again, (dx, dy, parts), strict=True))
