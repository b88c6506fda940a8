import numpy as np
import pytest
import torch

from dragoman.nn import Dropout
from dragoman.nn.dropout import hashed_mask


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_as_many_fall_as_should_and_the_mean_stays(p: float, device: torch.device) -> None:
    x = torch.ones(401, 503, device=device)
    y = Dropout(p)(x)
    n = x.numel()
    spread = (p * (1 - p) / n) ** 0.5
    assert abs(float((y == 0).sum()) / n - p) < 6 * spread + 1 / 65536
    kept = y[y != 0]
    torch.testing.assert_close(kept, torch.full_like(kept, 1 / (1 - p)), atol=0, rtol=2e-5)


def test_neighbors_fall_independently() -> None:
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


def test_next_to_one_all_falls_and_nothing_breaks() -> None:
    y = Dropout(0.9999999)(torch.ones(1000))
    assert y.isfinite().all() and (y == 0).sum() > 990
    assert not hashed_mask(y, 1 - 2**-40, torch.rand(2)).any()


def test_odd_sizes_and_views() -> None:
    for shape in ((1,), (3,), (5, 7), (0, 4)):
        assert Dropout(0.3)(torch.randn(shape)).shape == shape
    assert Dropout(0.3)(torch.randn(6, 5).T).shape == (5, 6)


def reference_bits(count: int, drawn: torch.Tensor) -> np.ndarray:
    """The hash in unsigned arithmetic, as its author writes it, with the two numbers added."""
    first, second = (int(d) << 7 for d in drawn.mul(1 << 24).tolist())
    h = (np.arange(count, dtype=np.uint64) + first) & 0xFFFFFFFF
    for shift, factor, add in ((17, 0xED5AD4BB, second), (11, 0xAC4C1B51, 0), (15, 0x31848BAB, 0)):
        h = ((h ^ (h >> np.uint64(shift))) * np.uint64(factor) + np.uint64(add)) & np.uint64(0xFFFFFFFF)
    return h.astype(np.uint32).view(np.int32)


def test_the_hashed_mask_is_the_hash_against_a_threshold() -> None:
    drawn = torch.rand(2)
    for p in (0.1, 0.3):
        mask = hashed_mask(torch.empty(37, 41), p, drawn)
        expected = reference_bits(37 * 41, drawn) >= round(p * 2**32) - 2**31
        assert np.array_equal(mask.flatten().numpy(), expected)


@pytest.mark.parametrize("p", [0.1, 0.3])
def test_places_and_draws_of_the_hashed_mask_are_independent(p: float) -> None:
    """Each figure is a normal deviate if they are."""
    x = torch.empty(4096, 512)
    n, spread = x.numel(), p * (1 - p)
    first, other = (hashed_mask(x, p, torch.rand(2)).double().flatten() - (1 - p) for _ in range(2))
    assert abs(first.sum()) < 5 * (n * spread) ** 0.5
    assert abs((first * other).sum()) < 5 * n**0.5 * spread
    for lag in (1, 2, 3, 4, 8, 16, 31, 64, 128, 511, 512, 513, 1024, 65536):
        assert abs((first[:-lag] * first[lag:]).sum()) < 5 * n**0.5 * spread, lag
    for axis in (0, 1):
        sums = first.view(4096, 512).sum(axis) / (spread * x.shape[axis]) ** 0.5
        assert abs((sums**2).sum() - len(sums)) < 5 * (2 * len(sums)) ** 0.5


@pytest.mark.gpu
def test_compiled_dropout_on_a_gpu_drops_as_much_forward_and_backward() -> None:
    x = torch.randn(1000, 512, device="cuda", requires_grad=True)
    dropout = torch.compile(Dropout(0.3), dynamic=False)
    y, other = dropout(x), dropout(x)
    (grad,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(grad * x, y)
    assert abs(float((y == 0).float().mean()) - 0.3) < 0.005
    assert not torch.equal(y, other)
