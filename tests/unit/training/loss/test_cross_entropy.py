"""The loss against a loop written from the equation."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from dragoman import Transformer
from dragoman.config import ModelRecipe
from dragoman.data.batch import FlatSentences, make_batch
from dragoman.data.batching import PackedShape
from dragoman.nn.kernels.cpu_bf16 import has_bfloat16_matmul
from dragoman.nn.linear import bfloat16_matmul
from dragoman.training.loss.cross_entropy import ProjectedCrossEntropy, TranslationLoss, smoothed_cross_entropy

N, V = 7, 11


def by_hand(logits: torch.Tensor, label: int, smoothing: float) -> float:
    """-sum_v q_v log p_v with q = (1 - e) [v = label] + e / V."""
    powers = [math.exp(float(x)) for x in logits]
    total = 0.0
    for v, power in enumerate(powers):
        q = (1 - smoothing) * (v == label) + smoothing / len(powers)
        total -= q * math.log(power / sum(powers))
    return total


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.3])
def test_the_loss_is_the_equation(smoothing: float) -> None:
    logits, labels = torch.randn(N, V) * 3, torch.randint(V, (N,))
    got = smoothed_cross_entropy(logits, labels, smoothing)
    assert math.isclose(
        float(got.smoothed),
        sum(by_hand(x, int(y), smoothing) for x, y in zip(logits, labels, strict=True)),
        rel_tol=1e-5,
    )
    assert math.isclose(
        float(got.plain), sum(by_hand(x, int(y), 0) for x, y in zip(logits, labels, strict=True)), rel_tol=1e-5
    )


def test_gradients_are_those_of_torchs_cross_entropy() -> None:
    logits, labels = torch.randn(N, V, requires_grad=True), torch.randint(V, (N,))
    ours = torch.autograd.grad(smoothed_cross_entropy(logits, labels, 0.1).smoothed, logits)[0]
    theirs = torch.autograd.grad(F.cross_entropy(logits, labels, label_smoothing=0.1, reduction="sum"), logits)[0]
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("rows", [1, 3, 512])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_projection_and_loss_in_one_equal_the_two_after_each_other(
    smoothing: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.training.loss.cross_entropy.CPU_ROWS", rows)
    hidden, weight = torch.randn(N, 5, requires_grad=True), torch.randn(V, 5, requires_grad=True)
    labels = torch.randint(V, (N,))
    smoothed, plain = ProjectedCrossEntropy.apply(hidden, weight, labels, smoothing)
    expected = smoothed_cross_entropy(hidden @ weight.T, labels, smoothing)
    torch.testing.assert_close(smoothed, expected.smoothed)
    torch.testing.assert_close(plain, expected.plain)
    got = torch.autograd.grad(smoothed * 0.7, (hidden, weight))
    for a, b in zip(got, torch.autograd.grad(expected.smoothed * 0.7, (hidden, weight)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.skipif(not has_bfloat16_matmul(), reason="no instructions for bfloat16, or no C compiler")
def test_in_bfloat16_the_loss_in_one_is_as_near_as_its_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.training.loss.cross_entropy.CPU_ROWS", 3)
    hidden, weight = torch.randn(N, 40, requires_grad=True), torch.randn(V, 40, requires_grad=True)
    labels = torch.randint(V, (N,))
    with bfloat16_matmul():
        smoothed, plain = ProjectedCrossEntropy.apply(hidden, weight, labels, 0.1)
    expected = smoothed_cross_entropy(hidden @ weight.T, labels, 0.1)
    torch.testing.assert_close(smoothed, expected.smoothed, atol=0, rtol=0.01)
    torch.testing.assert_close(plain, expected.plain, atol=0, rtol=0.01)
    got = torch.autograd.grad(smoothed, (hidden, weight))
    for a, b in zip(got, torch.autograd.grad(expected.smoothed, (hidden, weight)), strict=True):
        assert (a - b).norm() < 0.01 * b.norm() and not a.equal(b)


def test_no_rows_give_no_loss_and_no_gradient() -> None:
    hidden, weight = torch.randn(0, 5, requires_grad=True), torch.randn(V, 5, requires_grad=True)
    smoothed, _ = ProjectedCrossEntropy.apply(hidden, weight, torch.zeros(0, dtype=torch.long), 0.1)
    assert smoothed.item() == 0
    assert not torch.autograd.grad(smoothed, weight)[0].any()


def test_rows_that_are_not_real_count_nothing() -> None:
    logits, labels = torch.randn(N, V), torch.randint(V, (N,))
    real = torch.arange(N) % 3 != 1
    some, all_of_them = (
        smoothed_cross_entropy(logits, labels, 0.1, real),
        smoothed_cross_entropy(logits[real], labels[real], 0.1),
    )
    torch.testing.assert_close(some.smoothed, all_of_them.smoothed)
    torch.testing.assert_close(some.plain, all_of_them.plain)


def test_a_batch_padded_and_packed_has_the_same_loss_and_gradients() -> None:
    import numpy as np

    lengths = [np.array([3, 5, 1]), np.array([4, 2, 6])]
    flat = [FlatSentences(np.random.default_rng(i).integers(4, V, n.sum()), n) for i, n in enumerate(lengths)]
    pairs = np.arange(3)
    model = Transformer(ModelRecipe(d_model=12, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=0.0), V)
    task = TranslationLoss(model, smoothing=0.1, pad=0)
    gradients = []
    for shape in (None, PackedShape(source=16, target=18, sentences=5, longest=8)):
        loss = task(make_batch(pairs, *flat, shape, state=0))
        gradients.append([loss.smoothed, *torch.autograd.grad(loss.smoothed, list(model.parameters()))])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("bias", [False, True])
def test_the_loss_of_a_model_sums_over_real_target_tokens(bias: bool) -> None:
    import numpy as np

    sizes = {"d_model": 12, "n_heads": 3, "d_ff": 17, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    model = Transformer(ModelRecipe(**sizes, output_bias=bias), V)
    if bias:
        torch.nn.init.normal_(model.embeddings.output_bias)
    source, target = (
        FlatSentences(np.array([5, 6, 7]), np.array([2, 1])),
        FlatSentences(np.array([8, 9, 10, 4]), np.array([1, 3])),
    )
    batch = make_batch(np.arange(2), source, target, None, state=0)
    got = TranslationLoss(model, 0.1, pad=0)(batch).smoothed
    if bias:
        logits = model(batch.source, batch.target_in).flatten(0, 1)
        labels = batch.target_out.flatten()
        whole = smoothed_cross_entropy(logits, labels, 0.1, labels != 0).smoothed
        for a, b in zip(*(torch.autograd.grad(x, [*model.parameters()]) for x in (got, whole)), strict=True):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
    total = 0.0
    with torch.no_grad():
        for s, t in (([5, 6], [8]), ([7], [9, 10, 4])):
            logits = model(torch.tensor([[*s, 2]]), torch.tensor([[1, *t]]))[0]
            total += sum(by_hand(x, y, 0.1) for x, y in zip(logits, [*t, 2], strict=True))
    assert math.isclose(got.item(), total, rel_tol=1e-4)
