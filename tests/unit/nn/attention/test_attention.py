"""Attention functions against loops written from the equations of section 3.2.1."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dragoman.nn import Additive, Padded, ScaledDotProduct, Sees, causal, everything, look, scaled_dot_product, window
from dragoman.nn.attention.scaled_dot_product import fused_scaled_dot_product

B, H, T, S, K, V = 2, 3, 7, 5, 11, 13
CPU = torch.device("cpu")


def inputs(device: torch.device = CPU, d_key: int = K) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = torch.randn(B, H, T, K), torch.randn(B, H, S, d_key), torch.randn(B, H, S, V)
    return q.to(device).requires_grad_(), k.to(device).requires_grad_(), v.to(device).requires_grad_()


def sees_some(device: torch.device = CPU) -> Sees:
    return look(Padded(T), Padded(S, torch.tensor([3, S], device=device)), everything, device)


def softmax_loop(score, q: Tensor, k: Tensor, v: Tensor, shown: Tensor) -> tuple[Tensor, Tensor]:
    """Attention one number at a time, from its definition."""
    output, weights = torch.zeros(B, H, T, V), torch.zeros(B, H, T, S)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                seen = [j for j in range(S) if shown[b, i, j]]
                powers = [math.exp(score(h, q[b, h, i], k[b, h, j])) for j in seen]
                for j, power in zip(seen, powers, strict=True):
                    weights[b, h, i, j] = power / sum(powers)
                    output[b, h, i] += weights[b, h, i, j] * v[b, h, j]
    return output, weights


def test_scaled_dot_product_is_the_equation() -> None:
    q, k, v = inputs()
    shown = torch.arange(S).expand(B, T, S) < torch.tensor([3, S])[:, None, None]
    with torch.no_grad():
        output, weights = softmax_loop(lambda h, a, b: float(a @ b) / math.sqrt(K), q, k, v, shown)
        got = scaled_dot_product(q, k, v, sees_some())
    torch.testing.assert_close(got.output, output, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.weights, weights, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("rule", [everything, causal, window(1)], ids=["everything", "causal", "window"])
def test_fused_equals_reference_with_gradients(rule, device: torch.device) -> None:
    q, k, v = inputs(device)
    sees = look(Padded(T), Padded(S, torch.tensor([3, S], device=device)), rule, device)
    slow = scaled_dot_product(q, k, v, sees).output
    fast = fused_scaled_dot_product(q, k, v, sees)
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)
    direction = torch.randn_like(slow)
    for a, b in zip(
        torch.autograd.grad(slow, (q, k, v), direction), torch.autograd.grad(fast, (q, k, v), direction), strict=True
    ):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def test_additive_is_its_equation_with_queries_and_keys_of_different_sizes() -> None:
    q, k, v = inputs(d_key=6)
    function = Additive(K, 6, d_hidden=9, n_heads=H)

    def score(h: int, a: Tensor, b: Tensor) -> float:
        total = 0.0
        for u in range(9):
            inner = sum(float(a[i] * function.query[h, i, u]) for i in range(K))
            inner += sum(float(b[i] * function.key[h, i, u]) for i in range(6))
            total += float(function.vector[h, u, 0]) * math.tanh(inner)
        return total

    shown = torch.arange(S).expand(B, T, S) < torch.tensor([3, S])[:, None, None]
    with torch.no_grad():
        output, weights = softmax_loop(score, q, k, v, shown)
        got = function(q, k, v, sees_some(), weights=True)
    torch.testing.assert_close(got.output, output, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(got.weights, weights, atol=1e-6, rtol=1e-5)


FUNCTIONS = {"dot": ScaledDotProduct(), "additive": Additive(K, n_heads=H)}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("weights", [True, False])
def test_a_query_that_sees_nothing_gives_zeros_and_finite_gradients(
    name: str, weights: bool, device: torch.device
) -> None:
    q, k, v = inputs(device)
    sees = look(Padded(T), Padded(S, torch.tensor([0, 4], device=device)), everything, device)
    attended = FUNCTIONS[name].to(device)(q, k, v, sees, weights=weights)
    assert not attended.output[0].any()
    assert attended.output[1].all()
    gradients = torch.autograd.grad(attended.output.sum(), (q, k, v))
    for gradient in gradients:
        assert gradient.isfinite().all()
        assert not gradient[0].any()
    FUNCTIONS[name].to(CPU)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_query_behind_a_rule_that_shows_it_nothing(name: str) -> None:
    q, k, v = inputs()

    def after(query: Tensor, key: Tensor) -> Tensor:
        return key > query

    sees = look(Padded(T), Padded(S), after, CPU)  # queries 4, 5 and 6 have no key after them
    for weights in (True, False):
        attended = FUNCTIONS[name](q, k, v, sees, weights=weights)
        assert not attended.output[:, :, S - 1 :].any()
        assert attended.output[:, :, : S - 1].all()
        assert all(g.isfinite().all() for g in torch.autograd.grad(attended.output.square().sum(), (q, k, v)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_weights_are_given_only_on_request(name: str) -> None:
    q, k, v = inputs()
    assert FUNCTIONS[name](q, k, v, sees_some()).weights is None
    assert FUNCTIONS[name](q, k, v, sees_some(), weights=True).weights is not None


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_weights_are_non_negative_and_sum_to_one_over_what_is_seen(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    lengths = data.draw(st.lists(st.integers(0, S), min_size=B, max_size=B))
    rule = data.draw(st.sampled_from([everything, causal, window(1), window(0)]))
    size = data.draw(st.floats(0.01, 30))
    torch.manual_seed(data.draw(st.integers(0, 999)))
    q, k, v = (x.detach() * size for x in inputs())
    sees = look(Padded(T), Padded(S, torch.tensor(lengths)), rule, CPU)
    weights = FUNCTIONS[name](q, k, v, sees, weights=True).weights
    assert weights is not None
    shown = sees.dense(CPU)
    assert shown is not None
    shown = shown.expand(B, H, T, S)
    assert (weights >= 0).all()
    assert not weights[~shown].any()
    torch.testing.assert_close(weights.sum(-1), shown.any(-1).float(), atol=1e-5, rtol=0)


@settings(max_examples=15, deadline=None)
@given(st.sampled_from([16, 64, 256]), st.integers(0, 999))
def test_the_scale_keeps_unit_variance(d_k: int, seed: int) -> None:
    """Section 3.2.1's footnote: a dot product of unit-variance vectors has variance d_k; the scale undoes that."""
    g = torch.Generator().manual_seed(seed)
    q, k = torch.randn(1, 1, 200, d_k, generator=g), torch.randn(1, 1, 200, d_k, generator=g)
    sees = look(Padded(200), Padded(200), everything, CPU)
    weights = scaled_dot_product(q, k, torch.zeros(1, 1, 200, 1), sees).weights
    assert weights is not None
    scores = weights.log()  # the scores, up to a constant a row
    within = (scores - scores.mean(-1, keepdim=True)).var()
    assert 0.75 < float(within) < 1.25  # some five standard deviations of this estimate


def test_dropout_falls_on_the_weights() -> None:
    q, k, _ = inputs()
    ones = torch.ones(B, H, S, 1)
    dropped = scaled_dot_product(q, k, ones, sees_some(), dropout=0.5)
    assert dropped.weights is not None
    torch.testing.assert_close(dropped.weights.sum(-1), torch.ones(B, H, T))  # those returned are whole
    assert (dropped.output - 1).abs().max() > 0.1


@pytest.mark.gpu
def test_bfloat16_on_the_gpu_is_near_float32() -> None:
    cuda = torch.device("cuda")
    q, k, v = inputs(cuda)
    exact = scaled_dot_product(q, k, v, sees_some(cuda)).output
    half = [x.bfloat16() for x in (q, k, v)]
    torch.testing.assert_close(fused_scaled_dot_product(*half, sees_some(cuda)).float(), exact, atol=0.03, rtol=0.03)
    torch.testing.assert_close(scaled_dot_product(*half, sees_some(cuda)).output.float(), exact, atol=0.03, rtol=0.03)
