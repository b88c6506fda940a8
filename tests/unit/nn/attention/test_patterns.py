"""Patterns of attention: rules against loops, the band against the grid, mixtures against their equation."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from dragoman.errors import ShapeError
from dragoman.nn import (
    LowRank,
    MultiHeadSelfAttention,
    Packed,
    Padded,
    ScaledDotProduct,
    both,
    causal,
    either,
    everything,
    first,
    look,
    scaled_dot_product,
    scattered,
    window,
)
from dragoman.nn.attention.sees import reach
from raising import raises

B, H, K, V = 2, 3, 11, 13
CPU = torch.device("cpu")


@pytest.fixture
def _bands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bands also where sentences are short and a mask would be quicker."""
    monkeypatch.setattr("dragoman.nn.attention.sees.SHORT", 0)


def table(rule, size: int = 40) -> Tensor:
    return rule(torch.arange(size)[:, None], torch.arange(size)[None, :])


def test_the_first_see_all_and_are_seen_by_all() -> None:
    shown = table(first(3), 9)
    for i in range(9):
        for j in range(9):
            assert shown[i, j] == (i < 3 or j < 3)


def test_a_scattered_pattern_shows_about_as_many_as_asked_at_any_length() -> None:
    shown = table(scattered(4), 2000)
    before = shown.tril().sum(-1)[100:].float()
    assert abs(float(before.mean()) - 4) < 0.2  # five standard deviations of this mean
    assert 3 < float(before.var()) < 5  # as many as independent draws: a Poisson's variance is its mean
    halves = shown.tril()[1000:, :500].sum(-1).float().mean(), shown.tril()[1000:, 500:1000].sum(-1).float().mean()
    assert abs(float(halves[0] - halves[1])) < 0.3  # near and far alike


def test_a_scattered_pattern_depends_on_nothing_but_the_pair_and_the_seed() -> None:
    assert torch.equal(table(scattered(3), 60)[:25, :25], table(scattered(3), 25))
    assert torch.equal(table(scattered(3)), table(scattered(3)).T)
    assert not torch.equal(table(scattered(3)), table(scattered(3, seed=1)))
    later = scattered(3)(torch.tensor([[30]]), torch.arange(31)[None])
    assert torch.equal(later[0], table(scattered(3))[30, :31])


def test_more_than_there_are_shows_all() -> None:
    assert table(scattered(40)).all()
    assert table(scattered(1 << 40)).all()


def test_rules_travel_to_other_processes() -> None:
    rule = both(causal, either(window(2), first(1), scattered(3)))
    assert torch.equal(table(pickle.loads(pickle.dumps(rule))), table(rule))


def test_how_far_a_rule_looks() -> None:
    assert reach(window(5)) == 5
    assert reach(both(causal, window(7), window(4))) == 4
    assert reach(both(causal, both(window(3), everything))) == 3
    for unbounded in (causal, everything, first(2), scattered(2), either(window(3), first(1)), both(causal, causal)):
        assert reach(unbounded) is None


def test_a_band_is_for_long_texts_alone() -> None:
    for size, radius, band in ((200, 3, None), (201, 3, 3), (400, 50, None), (401, 50, 50)):
        layout = Padded(size)
        sees = look(layout, layout, window(radius), CPU)
        assert sees.band == band
        assert (sees.mask is None) == (band is not None)


@pytest.mark.usefixtures("_bands_for_all")
@pytest.mark.parametrize("length", [41, 64, 163])
@pytest.mark.parametrize(
    "rule", [window(5), both(causal, window(5)), window(0), window(20), both(causal, window(20), scattered(5))]
)
def test_the_band_equals_the_grid_with_gradients(rule, length: int, device: torch.device) -> None:
    layout = Padded(length, torch.tensor([length - 12, length], device=device))
    sees = replace(look(layout, layout, rule, device), sparse=None)
    if reach(rule) * 8 < length:
        assert sees.band == reach(rule) and sees.mask is None
    q, k, v = (torch.randn(B, H, length, d, device=device, requires_grad=True) for d in (K, K, V))
    fast, slow = ScaledDotProduct()(q, k, v, sees).output, scaled_dot_product(q, k, v, sees).output
    torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-5)
    direction = torch.randn_like(slow)
    ours, theirs = (torch.autograd.grad(x, (q, k, v), direction) for x in (fast, slow))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("_bands_for_all")
def test_a_query_that_sees_nothing_in_its_band_gives_zeros() -> None:
    layout = Padded(50, torch.tensor([0, 50]))
    sees = replace(look(layout, layout, window(2), CPU), sparse=None)
    assert sees.band == 2
    q, k, v = (torch.randn(B, H, 50, d, requires_grad=True) for d in (K, K, V))
    output = ScaledDotProduct()(q, k, v, sees).output
    assert not output[0].any()
    output.sum().backward()
    assert q.grad is not None and not q.grad[0].any() and q.grad.isfinite().all()


@pytest.mark.usefixtures("_bands_for_all")
def test_a_band_drops_weights_as_the_grid_does() -> None:
    layout = Padded(80)
    ones = torch.ones(1, 1, 80, 1)
    q = torch.zeros(1, 1, 80, K)
    sees = replace(look(layout, layout, window(5), CPU), sparse=None)
    assert sees.band == 5
    dropped = ScaledDotProduct()(q, q, ones, sees, dropout=0.5).output
    assert 0.8 < float(dropped.mean()) < 1.2
    assert float(dropped.std()) > 0.1


@pytest.mark.usefixtures("_bands_for_all")
def test_packed_sentences_in_a_band() -> None:
    attention = MultiHeadSelfAttention(12, 3)
    lengths = torch.tensor([30, 50, 0, 7])
    packed = Packed.of(lengths, size=90, longest=50)
    flat = torch.randn(90, 12)
    sees = replace(look(packed, packed, window(4), CPU), sparse=None)
    assert sees.band == 4
    together = attention(flat, sees)
    start = 0
    for n in lengths.tolist():
        if n:
            layout = Padded(n)
            alone = attention(flat[None, start : start + n], look(layout, layout, window(4), CPU))
            torch.testing.assert_close(together[start : start + n], alone[0], atol=1e-5, rtol=1e-5)
        start += n


def test_a_band_holds_no_square() -> None:
    """At 20,000 tokens a mask alone would be 400 million entries."""
    layout = Padded(20_000)
    sees = replace(look(layout, layout, both(causal, window(8)), CPU), sparse=None)
    x = torch.randn(1, 1, 20_000, 4)
    output = ScaledDotProduct()(x, x, x, sees).output
    here = slice(15_000 - 8, 15_001)
    weights = (x[0, 0, 15_000] @ x[0, 0, here].T / 2).softmax(-1)
    torch.testing.assert_close(output[0, 0, 15_000], weights @ x[0, 0, here], atol=1e-5, rtol=1e-5)


def test_low_rank_attention_is_its_equation() -> None:
    rank, size, lengths = 4, 9, [6, 9]
    function = LowRank(rank, 12)
    q, k, v = torch.randn(B, H, size, K), torch.randn(B, H, size, K), torch.randn(B, H, size, V)
    layout = Padded(size, torch.tensor(lengths))
    got = function(q, k, v, look(layout, layout, everything, CPU), weights=True)
    assert got.weights is not None
    for b, n in enumerate(lengths):
        for h in range(H):
            keys = torch.stack([sum(function.key_mix[r, j] * k[b, h, j] for j in range(n)) for r in range(rank)])
            values = torch.stack([sum(function.value_mix[r, j] * v[b, h, j] for j in range(n)) for r in range(rank)])
            for i in range(size):
                seen = (q[b, h, i] @ keys.T / math.sqrt(n) / math.sqrt(K)).softmax(-1)
                torch.testing.assert_close(got.output[b, h, i], seen @ values / math.sqrt(n), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(got.weights @ v, got.output, atol=1e-5, rtol=1e-4)  # what each value counts in the end
    assert not got.weights[0, :, :, 6:].any()


def test_low_rank_attention_is_the_same_where_no_length_is_given() -> None:
    function = LowRank(4, 12)
    q, k, v = torch.randn(B, H, 9, K), torch.randn(B, H, 9, K), torch.randn(B, H, 9, V)
    given, none = Padded(9, torch.tensor([9, 9])), Padded(9)
    one, other = (function(q, k, v, look(x, x, everything, CPU), weights=True) for x in (given, none))
    torch.testing.assert_close(one.output, other.output)
    torch.testing.assert_close(one.weights, other.weights.expand_as(one.weights))


def test_low_rank_attention_drops_its_mixtures() -> None:
    function, layout = LowRank(4, 12), Padded(9)
    q, k, v = torch.randn(B, H, 9, K), torch.randn(B, H, 9, K), torch.randn(B, H, 9, V)
    sees = look(layout, layout, everything, CPU)
    with torch.no_grad():
        whole = function(q, k, v, sees).output
        drawn = torch.stack([function(q, k, v, sees, dropout=0.3).output for _ in range(2000)])
    assert (drawn - whole).abs().amax((0, 1, 2, 4)).min() > 0.01
    error = (drawn.mean(0) - whole).abs() / (drawn.std(0) / 2000**0.5)
    assert error.max() < 6  # standard errors


def test_low_rank_attention_refuses_what_it_cannot_do() -> None:
    function, layout = LowRank(4, 12), Padded(13)
    x = torch.randn(1, 1, 13, 5)
    with raises(ShapeError, "text_too_long", "13 tokens", "12"):
        function(x, x, x, look(layout, layout, everything, CPU))
    with raises(ShapeError, "unsupported_mask"):
        function(x, x, x, look(layout, layout, causal, CPU))


def test_an_empty_sentence_in_low_rank_attention_gives_zeros() -> None:
    layout = Padded(5, torch.tensor([0, 5]))
    q, k, v = (torch.randn(B, H, 5, d, requires_grad=True) for d in (K, K, V))
    output = LowRank(4, 12)(q, k, v, look(layout, layout, everything, CPU)).output
    assert not output[0].any()
    output.sum().backward()
    assert k.grad is not None and k.grad.isfinite().all()
