"""Sizes chosen for an amount of data make a recipe that can be built, and never the paper's base on little data."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dragoman.config import DataRecipe, ModelRecipe, Recipe
from dragoman.data.loader import Loader
from dragoman.data.shards import Split
from dragoman.training.defaults import (
    model_choices,
    precision_choices,
    r_drop_choices,
    speed_choices,
    steps_of_epoch,
    training_choices,
    vocabulary_choice,
)


def full(target_tokens: int) -> Callable[[int], int]:
    """The steps of an epoch whose batches have no padding."""
    return lambda batch_tokens: -(-target_tokens // batch_tokens)


def settled(pairs: int, fast: bool) -> Recipe:
    chosen = [vocabulary_choice(pairs, fast), *model_choices(pairs, fast)]
    model = Recipe.from_changes(c.change for c in chosen).model
    chosen += training_choices(pairs, pairs * 14, model, fast, full(pairs * 14))
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
    chosen = [c.change for c in training_choices(1000, 14_000, tiny, False, full(14_000), steps)]
    recipe = Recipe.from_changes([*chosen, f"train.steps={steps}"])
    assert not any(change.startswith("train.steps=") for change in chosen)
    assert recipe.train.warmup_steps == min(max(50, min(4000, steps // 12)), steps // 2)
    assert recipe.train.evaluate_every == recipe.train.save_every == max(min(20, steps), steps // 12)


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        (100, "train.warmup_steps=50: for this few steps"),
        (1200, "train.warmup_steps=100: a twelfth of the steps"),
        (480_000, "train.warmup_steps=4000: the paper's, enough for longer runs too"),
    ],
)
def test_the_reason_given_for_a_warm_up_is_true(steps: int, reason: str) -> None:
    choices = training_choices(1000, 20_000, Recipe.load("tiny").model, False, full(20_000), steps)
    assert reason in [f"{choice.change}: {choice.reason}" for choice in choices]


def test_little_data_never_gets_the_base_model() -> None:
    for fast in (True, False):
        assert settled(29_000, fast).model.d_model < 512
        assert settled(29_000, fast).model.dropout > 0.1
    assert settled(1_660_000, True).model.d_model == 512


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("pairs", [1000, 29_000, 165_000, 1_660_000])
def test_every_model_that_is_chosen_learns_in_a_short_run(pairs: int, fast: bool) -> None:
    assert settled(pairs, fast).model.norm_order == "pre"


def test_bfloat16_where_the_machine_has_a_unit_and_the_model_gains_by_it() -> None:
    small, tiny = (Recipe.from_changes([f"model.preset={name}"]).model for name in ("small", "tiny"))
    (choice,) = precision_choices(small, has_kernel=lambda: True)
    assert Recipe.from_changes([choice.change]).train.precision == "bfloat16"
    assert precision_choices(small, has_kernel=lambda: False) == precision_choices(tiny, has_kernel=lambda: True) == []
    rival = Recipe.from_changes(["model.preset=small", "model.architecture=recurrent"]).model
    assert precision_choices(rival, has_kernel=lambda: True) == []  # its cells stay in float32


def test_long_runs_on_one_gpu_are_packed_and_compiled() -> None:
    usual = ModelRecipe()
    for long in ((6_000, 150_000_000), (1_200, 30_000_000), (6_000, 3_000_000)):
        recipe = Recipe.from_changes(c.change for c in speed_choices(*long, True, usual))
        assert recipe.data.layout == "packed"
        assert recipe.train.compile
        assert speed_choices(*long, False, usual) == []
    assert speed_choices(3_999, 29_999_999, True, usual) == []


def test_few_pairs_are_asked_to_agree_where_there_is_a_gpu_and_dropout() -> None:
    usual = ModelRecipe()
    assert [choice.change for choice in r_drop_choices(29_000, usual, True)] == ["train.r_drop=5"]
    assert Recipe.from_changes(["train.r_drop=5"]).train.r_drop == 5
    rivals = [ModelRecipe(dropout=0.0), ModelRecipe(architecture="recurrent")]
    assert not any(r_drop_choices(29_000, other, True) for other in rivals)
    assert r_drop_choices(29_000, usual, False) == r_drop_choices(500_000, usual, True) == []


@pytest.mark.parametrize(
    "other", [{"positions": "rotary"}, {"pattern": "local"}, {"attention": "additive"}, {"positions": "relative"}]
)
def test_what_the_packed_kernels_do_not_know_is_left_padded(other: dict[str, str]) -> None:
    assert speed_choices(6_000, 150_000_000, True, ModelRecipe(**other)) == []


def test_more_data_get_no_smaller_vocabulary() -> None:
    for fast in (True, False):
        sizes = [settled(pairs, fast).text.vocabulary_size for pairs in (10, 1000, 10_000, 100_000, 10_000_000)]
        assert sizes == sorted(sizes)


def some_split(pairs: int) -> Split:
    """Sentences of 3 to 25 tokens, the sides of unlike lengths."""
    sources = [[5] * (3 + i * 7 % 23) for i in range(pairs)]
    return Split.of(sources, [[6] * (3 + (i * 7 + i % 3) % 23) for i in range(pairs)])


@pytest.mark.parametrize(("pairs", "fast"), [(5, False), (50, False), (50, True), (500, False), (3000, True)])
def test_what_is_said_of_the_length_of_a_run_is_what_the_loader_does(pairs: int, fast: bool) -> None:
    split, tiny = some_split(pairs), Recipe.from_changes(["model.preset=tiny"]).model
    tokens = int(split.target.lengths.sum()) + pairs

    def epoch(batch_tokens: int) -> int:
        return steps_of_epoch(split, DataRecipe(batch_tokens=batch_tokens), 1, 1)

    told = {c.change.partition("=")[0]: c for c in training_choices(pairs, tokens, tiny, fast, epoch)}
    recipe = Recipe.from_changes(c.change for c in told.values())
    times = int(re.findall(r"([\d,]+) passes over", told["train.steps"].reason)[0].replace(",", ""))
    with Loader(split, recipe.data, pin=False) as loader:
        seen = sum(next(loader).n_sentences for _ in range(recipe.train.steps))
    assert times == pytest.approx(seen / pairs, rel=0.02)
    steps = "an epoch is one step" if pairs == 5 else f"{epoch(recipe.data.batch_tokens):,} steps per epoch"
    assert told["data.batch_tokens"].reason.endswith(steps)


def test_an_epoch_is_shorter_with_more_processes_and_longer_steps() -> None:
    split, data = some_split(400), DataRecipe(batch_tokens=300)
    alone = steps_of_epoch(split, data, 1, 1)
    assert steps_of_epoch(split, data, 2, 1) == steps_of_epoch(split, data, 1, 2) == -(-alone // 2)
    assert steps_of_epoch(split, data, 3, 2) == -(-alone // 6)
    assert steps_of_epoch(split, DataRecipe(batch_tokens=300, weights=(0.001,)), 1, 1) == 1  # an epoch may be empty


def test_an_epoch_of_very_many_pairs_is_not_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    split, data = some_split(4000), DataRecipe(batch_tokens=900)
    planned = steps_of_epoch(split, data, 1, 1)
    monkeypatch.setattr("dragoman.training.defaults.MAX_PLANNED_PAIRS", 3999)
    monkeypatch.setattr("dragoman.training.defaults.Loader", None)
    assert steps_of_epoch(split, data, 1, 1) == pytest.approx(planned, rel=0.1)


@pytest.mark.parametrize("pairs", [20, 2_000, 20_000, 3_000_000])
@pytest.mark.parametrize("preset", ["tiny", "small", "base", "big"])
def test_fine_tuning_is_gentler_and_shorter_than_training_from_scratch(pairs: int, preset: str) -> None:
    model, tokens = Recipe.load(preset).model, pairs * 12
    for fast in (True, False):
        scratch, gentle = (
            training_choices(pairs, tokens, model, fast, full(tokens), fine_tuning=fine) for fine in (False, True)
        )
        first, second = (Recipe.from_changes(c.change for c in choices) for choices in (scratch, gentle))
        assert second.train.learning_rate == pytest.approx((first.train.learning_rate or 0) / 10)
        assert second.train.steps * second.data.batch_tokens <= max(240 * 500, 11 * tokens)
        assert second.train.steps <= first.train.steps
        reason = next(c.reason for c in gentle if c.change.startswith("train.learning_rate="))
        assert "fine-tuning" in reason
