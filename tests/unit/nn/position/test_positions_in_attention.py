"""Position codes inside attention, against loops written from their papers' equations."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from dragoman.errors import ShapeError
from dragoman.nn import (
    LinearBias,
    Padded,
    RelativePositions,
    RotaryPositions,
    Rule,
    ScaledDotProduct,
    causal,
    everything,
    look,
)
from dragoman.nn.position.alibi import alibi_slopes
from dragoman.nn.position.rotary import rotate
from dragoman.nn.position.sinusoidal import sinusoid
from raising import raises

B, H, L, K, V = 2, 3, 7, 10, 13
CPU = torch.device("cpu")
LENGTHS = [4, L]


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(B, H, L, K), torch.randn(B, H, L, K), torch.randn(B, H, L, V)


def test_relative_positions_are_the_equations_of_shaw_and_others() -> None:
    m, (q, k, v) = 2, inputs()
    function = RelativePositions(K, V, m)
    layout = Padded(L, torch.tensor(LENGTHS))
    got = function(q, k, v, look(layout, layout, everything, CPU), weights=True)
    assert got.weights is not None
    for b, n in enumerate(LENGTHS):
        for h in range(H):
            for i in range(L):
                rows = [max(-m, min(m, j - i)) + m for j in range(n)]
                scores = torch.stack([q[b, h, i] @ (k[b, h, j] + function.key_table[r]) for j, r in enumerate(rows)])
                weights = (scores / math.sqrt(K)).softmax(-1)
                output = sum(w * (v[b, h, j] + function.value_table[rows[j]]) for j, w in enumerate(weights))
                torch.testing.assert_close(got.weights[b, h, i, :n], weights, atol=1e-5, rtol=1e-4)
                torch.testing.assert_close(got.output[b, h, i], output, atol=1e-5, rtol=1e-4)
    assert not got.weights[0, :, :, 4:].any()


@pytest.mark.parametrize("rule", [causal, everything])
def test_linear_biases_are_their_equation(rule: Rule) -> None:
    q, k, v = inputs()
    layout = Padded(L)
    got = LinearBias(H)(q, k, v, look(layout, layout, rule, CPU), weights=True)
    assert got.weights is not None
    for h, slope in enumerate(alibi_slopes(H)):
        for i in range(L):
            end = i + 1 if rule is causal else L
            scores = torch.stack([q[1, h, i] @ k[1, h, j] / math.sqrt(K) - slope * abs(i - j) for j in range(end)])
            torch.testing.assert_close(got.weights[1, h, i, :end], scores.softmax(-1), atol=1e-6, rtol=1e-5)


def test_slopes_are_those_of_the_paper() -> None:
    assert alibi_slopes(8) == [2.0**-i for i in range(1, 9)]
    assert alibi_slopes(1) == [2.0**-8]
    assert alibi_slopes(6) == [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3]
    assert all(len(set(alibi_slopes(n))) == n for n in range(1, 40))


def test_rotation_is_multiplication_by_a_complex_number_of_length_one() -> None:
    x, positions = torch.randn(3, 5, 8), torch.tensor([0, 1, 7, 200, 3000])
    turned = torch.view_as_complex(rotate(x, sinusoid(positions, 8)).view(3, 5, 4, 2))
    angle = positions[:, None].double() * 10000 ** (-torch.arange(0, 8, 2).double() / 8)
    expected = torch.view_as_complex(x.view(3, 5, 4, 2)) * torch.polar(torch.ones_like(angle), angle)
    torch.testing.assert_close(turned.to(torch.complex128), expected, atol=1e-6, rtol=1e-6)


def test_rotary_scores_depend_on_the_distance_alone() -> None:
    q, k = torch.randn(K), torch.randn(K)

    def score(i: int, j: int) -> float:
        a, b = (rotate(x[None], sinusoid(torch.tensor([p]), K))[0] for x, p in ((q, i), (k, j)))
        return float(a @ b)

    assert math.isclose(score(3, 8), score(103, 108), abs_tol=1e-4)
    assert abs(score(3, 8) - score(3, 9)) > 1e-3


@pytest.mark.parametrize(
    "function",
    [RelativePositions(K, V, 3), RotaryPositions(K, ScaledDotProduct()), LinearBias(H)],
    ids=lambda f: type(f).__name__,
)
class TestEveryOne:
    def test_nothing_changes_when_all_moves(self, function: torch.nn.Module) -> None:
        """The same tokens later in a longer text: only distances are told."""
        q, k, v = inputs()
        here, later = Padded(L), Padded(L, offset=600)
        a = function(q, k, v, look(here, here, everything, CPU)).output
        b = function(q, k, v, look(later, later, everything, CPU)).output
        torch.testing.assert_close(a, b, atol=2e-4, rtol=1e-3)  # float32 sines at 600

    def test_the_order_of_keys_counts(self, function: torch.nn.Module) -> None:
        q, k, v = inputs()
        layout = Padded(L)
        sees, order = look(layout, layout, everything, CPU), torch.arange(L).flip(0)
        a, b = function(q, k, v, sees).output, function(q, k[:, :, order], v[:, :, order], sees).output
        assert (a - b).abs().max() > 1e-3

    def test_the_newest_query_sees_what_the_whole_sequence_showed_it(self, function: torch.nn.Module) -> None:
        q, k, v = inputs()
        layout = Padded(L)
        whole = function(q, k, v, look(layout, layout, causal, CPU)).output
        newest = function(q[:, :, -1:], k, v, look(Padded(1, offset=L - 1), Padded(L), causal, CPU)).output
        torch.testing.assert_close(newest, whole[:, :, -1:], atol=1e-5, rtol=1e-5)

    def test_weights_are_dropped_and_the_rest_made_up_for(self, function: torch.nn.Module) -> None:
        q, k, v = inputs()
        layout = Padded(L)
        sees = look(layout, layout, causal, CPU)
        with torch.no_grad():
            whole = function(q, k, v, sees).output
            drawn = torch.stack([function(q, k, v, sees, dropout=0.3).output for _ in range(2000)])
        assert (drawn - whole).abs().amax((0, 1, 2, 4)).min() > 0.01  # at each position
        error = (drawn.mean(0) - whole).abs() / (drawn.std(0) / 2000**0.5)
        assert error.max() < 6  # standard errors

    @pytest.mark.parametrize("rows, columns", [(0, L), (B, 0)], ids=["no sentences", "no tokens"])
    def test_nothing_gives_nothing(self, function: torch.nn.Module, rows: int, columns: int) -> None:
        layout = Padded(columns, torch.zeros(rows, dtype=torch.long))
        q, k, v = (torch.randn(rows, H, columns, d) for d in (K, K, V))
        assert function(q, k, v, look(layout, layout, everything, CPU)).output.shape == (rows, H, columns, V)

    def test_weights_only_where_asked_and_gradients_finite_where_nothing_is_seen(self, function) -> None:
        q, k, v = (x.requires_grad_() for x in inputs())
        layout = Padded(L, torch.tensor([0, L]))
        sees = look(layout, layout, everything, CPU)
        assert function(q, k, v, sees).weights is None
        output = function(q, k, v, sees).output
        assert not output[0].any()
        output.sum().backward()
        assert all(x.grad is not None and x.grad.isfinite().all() for x in (q, k, v))


def test_rotary_positions_need_pairs() -> None:
    with raises(ShapeError, "not_divisible", "d_k=9", "even"):
        RotaryPositions(9, ScaledDotProduct())
