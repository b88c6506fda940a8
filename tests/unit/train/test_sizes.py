"""Sizes chosen for an amount of data make a recipe that can be built, and never the paper's base on little data."""

from __future__ import annotations

import pytest

from dragoman.config import ModelRecipe, Recipe
from dragoman.train.sizes import model_choices, precision_choices, speed_choices, training_choices, vocabulary_choice


def settled(pairs: int, fast: bool) -> Recipe:
    chosen = [vocabulary_choice(pairs, fast), *model_choices(pairs, fast)]
    model = Recipe.from_changes(c.change for c in chosen).model
    chosen += training_choices(pairs, pairs * 14, model, fast)
    assert all(c.reason for c in chosen)
    return Recipe.from_changes(c.change for c in chosen)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("pairs", [1, 50, 1000, 29_000, 165_000, 1_660_000, 40_000_000])
def test_every_amount_of_data_gets_a_recipe_that_holds_together(pairs: int, fast: bool) -> None:
    recipe = settled(pairs, fast)
    assert recipe.train.warmup_steps < recipe.train.steps
    assert recipe.train.evaluate_every <= recipe.train.steps
    assert recipe.data.batch_tokens > recipe.data.max_tokens


@pytest.mark.parametrize("steps", [1, 2, 30, 5000, 1_000_000])
def test_a_number_of_steps_that_was_asked_for_is_what_the_rest_follows(steps: int) -> None:
    tiny = Recipe.from_changes(["model.preset=tiny"]).model
    chosen = [c.change for c in training_choices(1000, 14_000, tiny, False, steps)]
    recipe = Recipe.from_changes([*chosen, f"train.steps={steps}"])
    assert not any(change.startswith("train.steps=") for change in chosen)
    assert recipe.train.warmup_steps == min(max(50, min(4000, steps // 12)), steps // 2)
    assert recipe.train.evaluate_every == recipe.train.save_every == max(min(20, steps), steps // 12)


def test_little_data_never_gets_the_base_model() -> None:
    for fast in (True, False):
        assert settled(29_000, fast).model.d_model < 512
        assert settled(29_000, fast).model.dropout > 0.1
    assert settled(1_660_000, True).model.d_model == 512


def test_bfloat16_where_the_machine_has_a_unit_and_the_model_gains_by_it() -> None:
    small, tiny = (Recipe.from_changes([f"model.preset={name}"]).model for name in ("small", "tiny"))
    (choice,) = precision_choices(small, multiplies_it=lambda: True)
    assert Recipe.from_changes([choice.change]).train.precision == "bfloat16"
    assert (
        precision_choices(small, multiplies_it=lambda: False)
        == precision_choices(tiny, multiplies_it=lambda: True)
        == []
    )


def test_long_runs_on_one_gpu_are_packed_and_compiled() -> None:
    usual = ModelRecipe()
    recipe = Recipe.from_changes(c.change for c in speed_choices(150_000_000, True, usual))
    assert recipe.data.layout == "packed"
    assert recipe.train.compile
    assert speed_choices(150_000_000, False, usual) == speed_choices(1_000_000, True, usual) == []


@pytest.mark.parametrize(
    "other", [{"positions": "rotary"}, {"pattern": "local"}, {"attention": "additive"}, {"positions": "relative"}]
)
def test_what_the_packed_kernels_do_not_know_is_left_padded(other: dict[str, str]) -> None:
    assert speed_choices(150_000_000, True, ModelRecipe(**other)) == []


def test_more_data_get_no_smaller_vocabulary() -> None:
    for fast in (True, False):
        sizes = [settled(pairs, fast).text.vocabulary_size for pairs in (10, 1000, 10_000, 100_000, 10_000_000)]
        assert sizes == sorted(sizes)
