import pytest
import torch

from dragoman.nn import BatchNorm, LayerNorm, Packed, Padded, PostNorm, PreNorm

B, T, D = 3, 7, 5
LENGTHS = torch.tensor([4, 7, 2])
CPU = torch.device("cpu")


def test_batch_norm_equals_torchs_where_nothing_is_padded() -> None:
    ours, theirs = BatchNorm(D), torch.nn.BatchNorm1d(D)
    x = torch.randn(B, T, D) * 3 + 1
    for _ in range(2):
        torch.testing.assert_close(ours(x), theirs(x.flatten(0, 1)).view(B, T, D), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)
    ours.eval(), theirs.eval()
    torch.testing.assert_close(ours(x), theirs(x.flatten(0, 1)).view(B, T, D), atol=1e-5, rtol=1e-5)


def test_batch_norm_ignores_padding_in_outputs_gradients_and_statistics() -> None:
    real = Padded(T, LENGTHS).real(CPU)
    assert real is not None
    x = torch.randn(B, T, D)
    wild = torch.where(real[..., None], x, 1000.0).requires_grad_()
    alone, theirs = x[real].requires_grad_(), torch.nn.BatchNorm1d(D)
    ours = BatchNorm(D)
    y, expected = ours(wild, real), theirs(alone)
    torch.testing.assert_close(y[real], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_variance, theirs.running_var)
    direction = torch.randn_like(expected)
    (got,) = torch.autograd.grad(y[real], wild, direction)
    (want,) = torch.autograd.grad(expected, alone, direction)
    torch.testing.assert_close(got[real], want, atol=1e-5, rtol=1e-5)
    assert not got[~real].any()


def test_batch_norm_is_the_same_padded_and_packed() -> None:
    padded, packed = Padded(T, LENGTHS), Packed.of(LENGTHS, size=15, longest=T)
    x = torch.randn(15, D)
    a, b = BatchNorm(D), BatchNorm(D)
    grid = packed.to_grid(x)
    torch.testing.assert_close(
        packed.from_grid(a(grid, padded.real(CPU)))[:13], b(x, packed.real(CPU))[:13], atol=1e-6, rtol=1e-5
    )
    torch.testing.assert_close(a.running_variance, b.running_variance)


def test_batch_norm_of_nothing_is_finite() -> None:
    norm = BatchNorm(D)
    assert norm(torch.randn(B, T, D), torch.zeros(B, T, dtype=torch.bool)).isfinite().all()
    assert norm.running_variance.isfinite().all()


def test_layer_norm_is_torchs() -> None:
    x = torch.randn(B, T, D)
    expected = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(LayerNorm(D)(x, None), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_the_residual_is_its_equation(kind: type) -> None:
    norm = LayerNorm(D)
    x, w = torch.randn(B, T, D), torch.randn(D, D)
    wrapped = kind(norm, 0.0)(x, lambda h: h @ w)
    expected = norm(x + x @ w) if kind is PostNorm else x + norm(x) @ w
    torch.testing.assert_close(wrapped, expected)


@pytest.mark.parametrize("kind", [PostNorm, PreNorm])
def test_dropout_falls_on_the_sublayers_output_before_it_is_added(kind: type) -> None:
    x = torch.full((B, T, 64), 2.0)

    class Same(torch.nn.Module):
        def forward(self, h: torch.Tensor, real: torch.Tensor | None = None) -> torch.Tensor:
            return h

    residual = kind(Same(), 0.5)
    values = residual(x, lambda h: torch.ones_like(h)).unique()
    assert values.tolist() == [2.0, 4.0]  # x + 0, or x + 1/(1 - 0.5): x itself is never dropped
    assert residual.eval()(x, lambda h: torch.ones_like(h)).unique().tolist() == [3.0]
