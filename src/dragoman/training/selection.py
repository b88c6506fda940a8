"""Choose the weights of the finished model: the candidate that scores best on the validation set."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from torch import Tensor

from dragoman.config import TrainRecipe
from dragoman.errors import DamagedError, TrainingError
from dragoman.progress import Reporter, format_figures
from dragoman.training.checkpoints.checkpoint import Checkpoints, TrainingState, average_weights
from dragoman.training.trainer import HIGHER_IS_BETTER, Evaluate, Trainer

STARTING_WEIGHTS: Final = "the starting weights"


@dataclass(frozen=True)
class SelectedWeights:
    """The weights of the finished model, their name, and their scores on the validation set."""

    weights: Mapping[str, Tensor]
    name: str
    scores: Mapping[str, float]


def select_weights(
    trainer: Trainer,
    last: Mapping[str, Tensor],
    ema: Mapping[str, Tensor],
    evaluate: Evaluate,
    reporter: Reporter,
) -> SelectedWeights:
    """The weights that score best: the last, the best checkpoint's, an average, or those that fine-tuning started from.

    Only checkpoints that every run with these settings has are considered: stopping and resuming changes nothing.
    """
    checkpoints, recipe, state = trainer.checkpoints, trainer.recipe, trainer.state
    last = {name: tensor.detach().cpu().clone() for name, tensor in last.items()}  # the model is lent below
    sign = 1 if HIGHER_IS_BETTER[recipe.stop_on] else -1
    best: tuple[float, SelectedWeights] | None = None
    for name, weights in weight_candidates(checkpoints, recipe, state, last, ema, reporter).items():
        if name == STARTING_WEIGHTS and state.start is not None:
            figures: Mapping[str, float] = state.start  # evaluated before the first step
        else:
            with trainer.replica.with_weights(trainer.model, weights) as model:
                figures = evaluate(model.eval(), trainer.stop.check).figures
        reporter.note(f"{name}: {format_figures(figures, ', ')}")
        usable = all(math.isfinite(value) for value in figures.values())
        figure = figures[recipe.stop_on] * sign if usable else -math.inf
        if best is None or figure > best[0]:
            best = (figure, SelectedWeights(weights, name, dict(figures)))
    assert best is not None  # the last weights are always a candidate
    if best[0] == -math.inf:
        rate = "" if recipe.learning_rate is None else f" (it was {recipe.learning_rate})"
        raise TrainingError(
            "training diverged: the figures on the validation set are not finite; train again with another --out and "
            f"a lower train.learning_rate{rate}, or with train.clip=1.0",
            code="diverged",
        )
    unhelpful = "; fine-tuning did not help on this validation set" if best[1].name == STARTING_WEIGHTS else ""
    reporter.note(f"kept: {best[1].name}{unhelpful}")
    return best[1]


def weight_candidates(
    checkpoints: Checkpoints,
    recipe: TrainRecipe,
    state: TrainingState,
    last: Mapping[str, Tensor],
    ema: Mapping[str, Tensor],
    reporter: Reporter,
) -> dict[str, Mapping[str, Tensor]]:
    """The weights to choose from, by their names on the card; a damaged checkpoint is skipped, with a note."""
    due = [step for step in checkpoints.regular_steps(recipe.save_every) if step <= state.step]
    averaged = due[-recipe.average :]
    start = {0} if state.start is not None else set()
    intact: dict[int, Mapping[str, Tensor]] = {}
    for step in sorted({*averaged, *start, state.best_step} & set(checkpoints.steps())):
        try:
            intact[step] = checkpoints.weights(step)
        except DamagedError as error:
            reporter.note(f"{error}; skipping it")
    found: dict[str, Mapping[str, Tensor]] = {}
    if 0 in intact:  # the first, so that fine-tuning must be better to be kept
        found[STARTING_WEIGHTS] = intact[0]
    averaged = [step for step in averaged if step in intact]
    if len(averaged) > 1:
        found[f"the average of the checkpoints {averaged}"] = average_weights([intact[step] for step in averaged])
    if state.best_step in intact and state.best_step not in (0, state.step):
        found[f"the checkpoint of step {state.best_step}"] = intact[state.best_step]
    found["the last weights"] = last
    if ema:
        found["the moving average"] = {**last, **{name: tensor.detach().cpu() for name, tensor in ema.items()}}
    return found
