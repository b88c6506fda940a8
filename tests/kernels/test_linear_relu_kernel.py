"""The way back through a ReLU against the one in PyTorch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from dragoman.nn.kernels import linear_relu as module
from dragoman.nn.kernels import uses_triton
from dragoman.nn.kernels.linear_relu import linear_relu, relu_backward

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(("n", "width"), [(1, 1), (7, 5), (64, 32), (67, 71)])
def test_what_passes_and_its_sums(n: int, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_PER_PROGRAM", 32)
    monkeypatch.setattr(module, "ROWS_PER_TILE", 8)
    monkeypatch.setattr(module, "COLUMNS_PER_PROGRAM", 32)
    grad, out = (torch.randn(n, width, device=DEVICE) for _ in range(2))
    out = F.relu(out)
    assert uses_triton(grad)
    cut, sums = relu_backward(grad, out)
    expected = torch.where(out > 0, grad, torch.zeros_like(grad))
    assert torch.equal(cut, expected)
    assert sums.shape == (-(-n // 32), width)
    torch.testing.assert_close(sums.sum(0), expected.sum(0), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.gpu)])
def test_gradients_of_the_whole(kind: torch.dtype) -> None:
    sizes = ((300, 8), (11, 8), (11,))
    x, weight, bias = (torch.randn(size, device=DEVICE).to(kind).requires_grad_() for size in sizes)
    probe = torch.randn(300, 11, device=DEVICE).to(kind)
    exact = [t.detach().double().requires_grad_() for t in (x, weight, bias)]
    ours, theirs = linear_relu(x, weight, bias), F.relu(F.linear(*exact))
    found = torch.autograd.grad((ours * probe).sum(), (x, weight, bias))
    expected = torch.autograd.grad((theirs * probe.double()).sum(), exact)
    bound = 1e-5 if kind == torch.float32 else 2e-2
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == kind
        assert float((a.double() - b).norm() / b.norm()) < bound
