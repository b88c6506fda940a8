import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.nn import LayerNorm, PostNorm
from dragoman.nn.dropout import hashed_mask
from dragoman.nn.kernels.residual_norm import add_and_norm, fuses_residual_norm, residual_norm, residual_norm_backward

N, D = 7, 11
DRAWN = torch.tensor([0.31, 0.77])


def leaves() -> list[Tensor]:
    """x, y, weight and bias."""
    torch.manual_seed(5)
    return [torch.randn(size, dtype=torch.float64, requires_grad=True) for size in ((N, D), (N, D), (D,), (D,))]


@pytest.mark.parametrize("p", [0.0, 0.35])
def test_values_and_gradients_are_those_of_the_parts(p: float) -> None:
    x, y, weight, bias = given = leaves()
    dropped = torch.where(hashed_mask(y, p, DRAWN), y / (1 - p), 0.0)
    theirs = F.layer_norm(x + dropped, (D,), weight, bias, 1e-5)
    ours = residual_norm(*given, DRAWN, p, 1e-5)[0]
    torch.testing.assert_close(ours, theirs)
    probe = torch.randn(N, D, dtype=torch.float64)
    found = [torch.autograd.grad(out, given, probe) for out in (ours, theirs)]
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_the_operators_are_what_the_compiler_takes_them_for() -> None:
    given = leaves()
    torch.library.opcheck(residual_norm, (*given, DRAWN, 0.35, 1e-5))
    _, *kept = residual_norm(*(t.detach() for t in given), DRAWN, 0.35, 1e-5)
    for other in (None, torch.randn(N, D, dtype=torch.float64)):
        grad = torch.randn(N, D, dtype=torch.float64)
        torch.library.opcheck(residual_norm_backward, (grad, other, *kept, given[2].detach(), DRAWN, 0.35))


def test_a_dropout_is_drawn_anew_each_time_and_drops_its_share() -> None:
    norm, p = nn.LayerNorm(64), 0.25
    x, y = torch.zeros(300, 64), torch.ones(300, 64)
    torch.manual_seed(1)
    first, second = (add_and_norm(x, y, norm, p) for _ in range(2))
    torch.manual_seed(1)
    assert torch.equal(add_and_norm(x, y, norm, p), first)
    assert not torch.equal(first, second)
    assert float((first < 0).float().mean()) == pytest.approx(p, abs=0.02)
    torch.testing.assert_close(add_and_norm(y, y, norm, 0.0), norm(y + y).detach())


def test_a_cpu_keeps_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.nn.kernels.residual_norm.compiler_ready", True)
    x = torch.randn(N, D)
    assert not fuses_residual_norm(x, x.bfloat16())
    around = PostNorm(LayerNorm(D), 0.0).train()
    torch.testing.assert_close(around(x, lambda h: 2 * h), F.layer_norm(3 * x, (D,)))


def test_layers_around_which_it_is_used_learn_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(3)
    layers = nn.ModuleList(PostNorm(LayerNorm(D), 0.0) for _ in range(3))
    inner = nn.ModuleList(nn.Linear(D, D) for _ in range(3))
    x, probe = torch.randn(N, D), torch.randn(N, D)

    def gradients() -> list[Tensor]:
        h = x
        for around, linear in zip(layers, inner, strict=True):
            h = around(h, linear)
        return [h, *torch.autograd.grad(h, [*layers.parameters(), *inner.parameters()], probe)]

    plain = gradients()
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    monkeypatch.setattr("dragoman.nn.residual.fuses_residual_norm", lambda x, y: True)
    used = gradients()
    assert "residual_norm" in str(used[0].grad_fn)
    for a, b in zip(used, plain, strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
