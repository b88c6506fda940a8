import pytest
import torch

from dragoman.nn import Dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_as_many_fall_as_should_and_the_mean_stays(p: float, device: torch.device) -> None:
    x = torch.ones(401, 503, device=device)
    y = Dropout(p)(x)
    n = x.numel()
    spread = (p * (1 - p) / n) ** 0.5
    assert abs(float((y == 0).sum()) / n - p) < 6 * spread + 1 / 65536
    kept = y[y != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)), atol=0, rtol=2e-5)


def test_neighbours_fall_independently() -> None:
    """Four elements share 64 random bits: none may know of the others."""
    dropped = (Dropout(0.5)(torch.ones(4 * 100_000)) == 0).view(-1, 4).double()
    correlation = torch.corrcoef(dropped.T) - torch.eye(4)
    assert correlation.abs().max() < 0.02
    assert (dropped.mean(0) - 0.5).abs().max() < 0.01


def test_gradients_pass_where_values_pass() -> None:
    x = torch.randn(30, 7, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x, y)


def test_the_seed_decides() -> None:
    x = torch.ones(1001)
    first, again, other = (torch.manual_seed(seed) and Dropout(0.2)(x) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_nothing_falls_in_evaluation_or_at_zero() -> None:
    x = torch.randn(50)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


def test_odd_sizes_and_views() -> None:
    for shape in ((1,), (3,), (5, 7), (0, 4)):
        assert Dropout(0.3)(torch.randn(shape)).shape == shape
    assert Dropout(0.3)(torch.randn(6, 5).T).shape == (5, 6)
