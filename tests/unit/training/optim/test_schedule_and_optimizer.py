"""The learning rate and Adam against the paper's equations."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from dragoman.config import TrainRecipe
from dragoman.errors import DamagedError
from dragoman.training.optim.optimizer import Optimizer, learning_rate
from raising import raises

PAPER = TrainRecipe()


@pytest.mark.parametrize("step", [1, 2, 17, 3999, 4000, 4001, 50_000, 100_000])
def test_the_papers_schedule(step: int) -> None:
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert math.isclose(learning_rate(PAPER, 512, step), expected, rel_tol=1e-12)


def test_other_schedules_end_where_they_say() -> None:
    for schedule, half in (("cosine", 0.5), ("linear", 0.5), ("constant", 1.0)):
        recipe = TrainRecipe(steps=1100, warmup_steps=100, learning_rate=0.4, schedule=schedule)
        assert math.isclose(learning_rate(recipe, 64, 50), 0.2)
        assert math.isclose(learning_rate(recipe, 64, 100), 0.4)
        assert math.isclose(learning_rate(recipe, 64, 600), 0.4 * half)
        assert math.isclose(learning_rate(recipe, 64, 1100), 0.4 if schedule == "constant" else 0.0, abs_tol=1e-12)


def test_no_warm_up_begins_at_the_highest_rate() -> None:
    recipe = TrainRecipe(warmup_steps=0, learning_rate=0.4)
    assert learning_rate(recipe, 64, 1) == 0.4


def net() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.LayerNorm(7), torch.nn.Linear(7, 3))


def test_adam_is_its_equation() -> None:
    """Kingma & Ba, algorithm 1, with the betas and epsilon of section 5.3."""
    model = net()
    optimizer = Optimizer(model, PAPER)
    weights = {n: p.detach().double().clone() for n, p in model.named_parameters()}
    first = {n: torch.zeros_like(w) for n, w in weights.items()}
    second = {n: torch.zeros_like(w) for n, w in weights.items()}
    for t in range(1, 6):
        rate = learning_rate(PAPER, 64, t)
        for name, p in model.named_parameters():
            p.grad = torch.randn_like(p)
            g = p.grad.double()
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.98 * second[name] + 0.02 * g**2
            step = first[name] / (1 - 0.9**t) / ((second[name] / (1 - 0.98**t)).sqrt() + 1e-9)
            weights[name] -= rate * step
        optimizer.step(rate)
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.detach().double(), weights[name], atol=1e-7, rtol=1e-5)


@pytest.mark.parametrize("kind", ["adam", "adamw", "muon"])
def test_a_restored_optimizer_goes_on_to_the_bit(kind: str) -> None:
    recipe = replace(PAPER, optimizer=kind, weight_decay=0.01)

    def go(model: torch.nn.Module, optimizer: Optimizer, steps: range) -> None:
        for t in steps:
            torch.manual_seed(t)
            for p in model.parameters():
                p.grad = torch.randn_like(p)
            optimizer.step(0.01)
            optimizer.clear_gradients()

    whole = net()
    go(whole, Optimizer(whole, recipe), range(6))
    stopped = net()
    optimizer = Optimizer(stopped, recipe)
    go(stopped, optimizer, range(3))
    saved = {name: value.clone() for name, value in optimizer.state().items()}
    resumed = net()
    resumed.load_state_dict(stopped.state_dict())
    optimizer = Optimizer(resumed, recipe)
    optimizer.restore(saved)
    go(resumed, optimizer, range(3, 6))
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_state_of_another_model_is_refused() -> None:
    optimizer = Optimizer(net(), PAPER)
    with raises(DamagedError, "checkpoint_mismatch", "other.weight"):
        optimizer.restore({"other.weight/exp_avg": torch.zeros(1)})


def test_muon_takes_the_matrices_and_leaves_embeddings_to_adamw() -> None:
    from dragoman import Transformer
    from dragoman.config import ModelRecipe

    sizes = ModelRecipe(d_model=8, n_heads=2, d_ff=8, encoder_layers=1, decoder_layers=1, positions="relative")
    model = Transformer(sizes, 9)
    optimizer = Optimizer(model, replace(PAPER, optimizer="muon"))
    names = [{optimizer.names[id(p)] for g in o.param_groups for p in g["params"]} for o in optimizer.inner]
    assert "encoder.0.attention.qkv.weight" in names[0]
    assert "embeddings.tables.shared" in names[1]
    assert "encoder.0.attention.function.key_table" in names[1]  # a vector for each distance is an embedding too
    assert not names[0] & names[1]
    assert names[0] | names[1] == {n for n, _ in model.named_parameters()}
