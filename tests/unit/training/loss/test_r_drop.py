"""R-Drop's loss against autograd on the equation, and in a step of training."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dragoman import Transformer
from dragoman.config import ModelRecipe, Recipe
from dragoman.data.batch import Batch, FlatSentences, make_batch
from dragoman.data.batching import PackedShape
from dragoman.errors import RecipeError
from dragoman.nn.kernels.cpu_bf16 import has_bfloat16_matmul
from dragoman.nn.linear import bfloat16_matmul
from dragoman.training.loss.cross_entropy import TranslationLoss, layouts
from dragoman.training.loss.r_drop import ProjectedRDrop
from raising import raises

N, D, V = 9, 5, 13


def by_the_equation(
    hidden: list[torch.Tensor], weight: torch.Tensor, labels: torch.Tensor, smoothing: float, alpha: float
) -> torch.Tensor:
    """Half of the paper's: -log P_1 - log P_2 + alpha / 2 (KL(P_1 || P_2) + KL(P_2 || P_1)), with smoothed labels."""
    logits = [h @ weight.T for h in hidden]
    a, b = (x.log_softmax(-1) for x in logits)
    likely = sum(F.cross_entropy(x, labels, label_smoothing=smoothing, reduction="sum") for x in logits)
    apart = F.kl_div(b, a, reduction="sum", log_target=True) + F.kl_div(a, b, reduction="sum", log_target=True)
    return (likely + alpha / 2 * apart) / 2  # type: ignore[no-any-return]


@pytest.mark.parametrize("rows", [1, 4, 512])
@pytest.mark.parametrize(("smoothing", "alpha"), [(0.0, 5.0), (0.1, 3.0), (0.2, 0.0)])
def test_loss_and_gradients_are_those_of_the_equation(
    smoothing: float, alpha: float, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.training.loss.r_drop.CPU_ROWS", rows)
    first, second, weight = (torch.randn(n, D, requires_grad=True) for n in (N, N, V))
    labels, real = torch.randint(V, (N,)), torch.rand(N) < 0.7
    loss, plain = ProjectedRDrop.apply(first, second, weight, labels, real, smoothing, alpha)
    kept = [first[real], second[real]]
    expected = by_the_equation(kept, weight, labels[real], smoothing, alpha)
    torch.testing.assert_close(loss, expected)
    of_labels = sum(F.cross_entropy(h @ weight.T, labels[real], reduction="sum") for h in kept) / 2
    torch.testing.assert_close(plain, of_labels)
    got = torch.autograd.grad(loss * 0.7, (first, second, weight))
    for a, b in zip(got, torch.autograd.grad(expected * 0.7, (first, second, weight)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def setting(dropout: float, agreement: float, shape: PackedShape | None = None) -> tuple[TranslationLoss, Batch]:
    torch.manual_seed(3)
    recipe = ModelRecipe(d_model=12, n_heads=3, d_ff=17, encoder_layers=1, decoder_layers=2, dropout=dropout)
    lengths = [np.array([3, 5, 1]), np.array([4, 2, 6])]
    flat = [FlatSentences(np.random.default_rng(i).integers(4, V, n.sum()), n) for i, n in enumerate(lengths)]
    return TranslationLoss(Transformer(recipe, V), 0.1, 0, agreement), make_batch(np.arange(3), *flat, shape, state=0)


@pytest.mark.parametrize("shape", [None, PackedShape(source=16, target=18, sentences=5, longest=8)])
def test_two_passes_that_drop_nothing_agree_and_cost_what_one_does(shape: PackedShape | None) -> None:
    found = []
    for agreement in (0.0, 5.0):
        task, batch = setting(0.0, agreement, shape)
        loss = task(batch)
        found.append([loss.smoothed, loss.plain, *torch.autograd.grad(loss.smoothed, list(task.parameters()))])
    for one, two in zip(*found, strict=True):
        torch.testing.assert_close(two, one, atol=1e-4, rtol=1e-4)


def test_passes_that_drop_different_units_pay_for_what_they_disagree_on() -> None:
    task, batch = setting(0.3, 5.0)
    torch.manual_seed(8)
    source, target = layouts(batch)
    hidden = [task.model.hidden(batch.source, batch.target_in, source, target) for _ in range(2)]
    labels = batch.target_out.flatten()
    kept = [h.reshape(len(labels), -1)[labels != 0] for h in hidden]
    expected = by_the_equation(kept, task.model.projection(), labels[labels != 0], 0.1, 5.0)
    torch.manual_seed(8)
    torch.testing.assert_close(task(batch).smoothed, expected)
    torch.manual_seed(8)
    without = setting(0.3, 1e-9)[0]
    without.load_state_dict(task.state_dict())
    torch.manual_seed(8)
    assert task(batch).smoothed > 1.05 * without(batch).smoothed


def test_a_model_that_is_not_learning_goes_through_a_batch_once() -> None:
    task, batch = setting(0.3, 5.0)
    plain = TranslationLoss(task.model, 0.1, 0).eval()
    torch.testing.assert_close(task.eval()(batch).smoothed, plain(batch).smoothed, atol=0, rtol=0)


def test_a_batch_of_nothing_costs_nothing() -> None:
    first, second, weight = (torch.randn(n, D, requires_grad=True) for n in (0, 0, V))
    nothing = torch.zeros(0, dtype=torch.long)
    loss, plain = ProjectedRDrop.apply(first, second, weight, nothing, nothing.bool(), 0.1, 5.0)
    assert loss.item() == plain.item() == 0
    assert not torch.autograd.grad(loss, weight)[0].any()


@pytest.mark.skipif(not has_bfloat16_matmul(), reason="no instructions for bfloat16, or no C compiler")
def test_in_bfloat16_it_is_as_near_as_its_digits() -> None:
    first, second, weight = (torch.randn(n, 40, requires_grad=True) for n in (N, N, V))
    labels, real = torch.randint(V, (N,)), torch.ones(N, dtype=torch.bool)
    with bfloat16_matmul():
        loss, _ = ProjectedRDrop.apply(first, second, weight, labels, real, 0.1, 5.0)
    expected = by_the_equation([first, second], weight, labels, 0.1, 5.0)
    torch.testing.assert_close(loss, expected, atol=0, rtol=0.02)
    for a, b in zip(
        torch.autograd.grad(loss, (first, second, weight)),
        torch.autograd.grad(expected, (first, second, weight)),
        strict=True,
    ):
        assert (a - b).norm() < 0.03 * b.norm()


@pytest.mark.parametrize("value", ["-1", "inf", "nan"])
def test_a_weight_that_cannot_be_is_refused(value: str) -> None:
    with pytest.raises(RecipeError, match=r"train\.r_drop"):
        Recipe.from_changes([f"train.r_drop={value}"])


def test_without_dropout_there_is_nothing_to_agree_on() -> None:
    with raises(RecipeError, "conflicting_settings", "model.dropout"):
        Recipe.from_changes(["train.r_drop=5", "model.dropout=0"])
    assert Recipe.from_changes(["train.r_drop=5"]).train.r_drop == 5
    for other in ("attention_dropout", "feed_forward_dropout"):
        assert Recipe.from_changes(["train.r_drop=5", "model.dropout=0", f"model.{other}=0.1"]).train.r_drop == 5


def test_the_compiler_takes_it_whole() -> None:
    given = [torch.randn(n, D, requires_grad=True) for n in (N, N, V)]
    labels, real = torch.randint(V, (N,)), torch.rand(N) < 0.7

    def loss(first: torch.Tensor, second: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return ProjectedRDrop.apply(first, second, weight, labels, real, 0.1, 5.0)[0]  # type: ignore[no-any-return]

    made = torch.compile(loss, backend="aot_eager", fullgraph=True, dynamic=False)
    found = [torch.autograd.grad(called(*given), given) for called in (loss, made)]
    for plain, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, plain)
