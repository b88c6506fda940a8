"""The loss of the GPU against the one that holds all logits; in Triton's interpreter where there is no GPU."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")

from dragoman.training.loss import fused_cross_entropy as fused_loss
from dragoman.training.loss.cross_entropy import smoothed_cross_entropy

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
N, D, V, PAD = 23, 16, 131, 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("wide", [16, 24576])
@pytest.mark.parametrize(("rows", "block"), [(5, 16), (64, 16), (64, 2048)])
def test_losses_and_gradients(
    rows: int, block: int, wide: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fused_loss, "WIDE", wide)
    monkeypatch.setattr(fused_loss, "ROWS", rows)
    monkeypatch.setattr(fused_loss, "LOGITS_PER_BLOCK", block)
    hidden = torch.randn(N, D, device=DEVICE, requires_grad=True)
    weight = torch.randn(V, D, device=DEVICE, requires_grad=True)
    labels = torch.randint(1, V, (N,), device=DEVICE)
    labels[[3, 20, 22]] = PAD
    expected = smoothed_cross_entropy(hidden @ weight.T, labels, smoothing, labels != PAD)
    theirs = torch.autograd.grad(expected.smoothed * 0.3, (hidden, weight))
    smoothed, plain, *_ = fused_loss.projected_loss(hidden, weight, labels, smoothing, PAD, True)
    ours = torch.autograd.grad(smoothed * 0.3, (hidden, weight))
    torch.testing.assert_close(smoothed, expected.smoothed)
    torch.testing.assert_close(plain, expected.plain)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_without_gradients_the_sums_are_the_same() -> None:
    hidden, weight = torch.randn(N, D, device=DEVICE), torch.randn(V, D, device=DEVICE)
    labels = torch.randint(0, V, (N,), device=DEVICE)
    with_them = fused_loss.projected_loss(hidden, weight, labels, 0.1, PAD, True)
    without = fused_loss.projected_loss(hidden, weight, labels, 0.1, PAD, False)
    assert torch.equal(with_them[0], without[0])
    assert torch.equal(with_them[1], without[1])
    assert not without[2].numel()


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n", [0, N])
def test_nothing_is_read_that_was_not_written(n: int, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_loss, "ROWS", 7)
    hidden, weight = torch.randn(n, D, device=DEVICE, dtype=kind), torch.randn(V, D, device=DEVICE)
    labels = torch.randint(0, V, (n,), device=DEVICE)
    torch.use_deterministic_algorithms(True, warn_only=True)  # fills fresh memory with NaN
    try:
        assert torch.empty(3, device=DEVICE).isnan().all()
        found = fused_loss.projected_loss(hidden, weight, labels, 0.1, PAD, True)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(tensor.isfinite().all() for tensor in found)
    assert found[3].shape == (V, D)


@pytest.mark.gpu
def test_bfloat16_is_as_near_as_its_digits() -> None:
    hidden = torch.randn(9000, 64, device=DEVICE)
    weight = torch.randn(3001, 64, device=DEVICE) / 8
    labels = torch.randint(0, 3001, (9000,), device=DEVICE)
    found = []
    for kind in (torch.float32, torch.bfloat16):
        h, w = hidden.to(kind).requires_grad_(), weight.clone().requires_grad_()
        if kind == torch.float32:
            total = smoothed_cross_entropy(h @ w.T, labels, 0.1, labels != PAD).smoothed
        else:
            total = fused_loss.projected_loss(h, w, labels, 0.1, PAD, True)[0]
        found.append((total.detach(), *torch.autograd.grad(total, (h, w))))
    for exact, near in zip(*found, strict=True):
        assert float((near.float() - exact).norm() / exact.norm()) < 1e-2


def test_half_precision_is_near_float32_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU the gradient of the weights is then summed by products that give float32."""
    monkeypatch.setattr(fused_loss, "ROWS", 7)
    hidden, weight = torch.randn(N, D, device=DEVICE).bfloat16(), torch.randn(V, D, device=DEVICE).bfloat16().float()
    labels = torch.randint(0, V, (N,), device=DEVICE)
    exact, half = (fused_loss.projected_loss(x, weight, labels, 0.1, PAD, True) for x in (hidden.float(), hidden))
    assert half[3].dtype == torch.float32
    for ours, reference in zip(half, exact, strict=True):
        error = (ours.float() - reference).norm() / reference.norm()
        assert error < 0.02  # a bfloat16 has eight bits
