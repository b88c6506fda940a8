"""How long a run takes, from the measured speed of its steps; and the run that fits a number of minutes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from dragoman.config import Recipe
from dragoman.data.prepared import Prepared
from dragoman.errors import TrainingError
from dragoman.training.defaults import EVALUATIONS, MAX_EPOCHS, Choice, steps_of_epoch
from dragoman.training.speed import Speed

CANDIDATES: Final = 3  # sets of weights evaluated at the end
EVALUATION_SHARE: Final = 0.25  # at most this share of the time
SMALLER_MODEL_SHARE: Final = 0.3  # if less than this share of the default steps fits, a smaller model learns more
MIN_STEPS: Final = 20
SMALLER: Final = {"base": "small", "small": "tiny"}


@dataclass(frozen=True)
class RunLength:
    """A number of steps and evaluations, and the seconds of a step; `capped` at the most epochs."""

    steps: int
    evaluations: int
    step_seconds: float
    capped: bool = False


def epoch_length(recipe: Recipe, prepared: Prepared, world: int) -> int:
    """The steps of an epoch."""
    return steps_of_epoch(prepared.split("train"), recipe.data, world, recipe.train.accumulate)


def step_seconds(recipe: Recipe, prepared: Prepared, world: int, speed: Speed) -> float:
    """The mean time of a step: its target tokens per process, at the measured speed."""
    split = prepared.split("train")
    tokens = int(split.target.lengths.sum()) + len(split)
    return tokens / epoch_length(recipe, prepared, world) / world * speed.seconds_per_token


def run_seconds(recipe: Recipe, prepared: Prepared, world: int, speed: Speed, fine_tuning: bool) -> float:
    """The time of a run: its first step, its steps, its evaluations, and the selection of the weights."""
    train = recipe.train
    evaluations = -(-train.steps // train.evaluate_every) + CANDIDATES + fine_tuning
    steps = train.steps * step_seconds(recipe, prepared, world, speed)
    return speed.startup_seconds + steps + evaluations * speed.seconds_per_evaluation


def fit_minutes(
    recipe: Recipe, prepared: Prepared, world: int, speed: Speed, minutes: float, max_epochs: int = MAX_EPOCHS
) -> RunLength:
    """The longest run that fits, up to a number of epochs; with fewer evaluations if they are slow."""
    seconds, of_step, of_evaluation = (
        60 * minutes - speed.startup_seconds,
        step_seconds(recipe, prepared, world, speed),
        speed.seconds_per_evaluation,
    )
    affordable = int(EVALUATION_SHARE * seconds / max(of_evaluation, 1e-9)) - CANDIDATES - 1
    evaluations = max(1, min(EVALUATIONS, affordable))
    left = seconds - (evaluations + CANDIDATES + 1) * of_evaluation
    most = max_epochs * epoch_length(recipe, prepared, world)
    steps = min(int(left / of_step), most)
    if left < MIN_STEPS * of_step:
        least = (speed.startup_seconds + MIN_STEPS * of_step + (CANDIDATES + 2) * of_evaluation) / 60
        raise TrainingError(
            f"--minutes {minutes:g} is too short: a step takes {of_step:.2f} s here and an evaluation about "
            f"{of_evaluation:.1f} s; give at least {least:.1f}, or a smaller validation set",
            code="out_of_range",
        )
    return RunLength(max(MIN_STEPS, steps), evaluations, of_step, capped=steps == most)


def smaller_model_choice(sizes: Sequence[Choice], changed: Collection[str]) -> Choice | None:
    """The next smaller preset than the chosen one; None if the user chose the model's size, or it is the smallest."""
    chosen = next((c.change.partition("=")[2] for c in sizes if c.change.startswith("model.preset=")), "")
    if chosen not in SMALLER or any(key.startswith("model.") for key in changed):
        return None
    return Choice(f"model.preset={SMALLER[chosen]}", f"a {chosen} model would see too little of the data in the time")
