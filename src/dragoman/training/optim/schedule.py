"""How the learning rate moves (section 5.3)."""

from __future__ import annotations

import math

from dragoman.config import TrainRecipe


def learning_rate(recipe: TrainRecipe, d_model: int, step: int) -> float:
    """The rate of step 1, 2, ...

    The paper's is d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5): it climbs in a line to its highest,
    (d_model * warmup_steps)^-0.5, and falls with the square root of the step. Written with the highest first, other
    shapes stand beside it: "cosine" and "linear" fall to nothing at the last step, "constant" stays.
    """
    highest = recipe.learning_rate if recipe.learning_rate is not None else (d_model * recipe.warmup_steps) ** -0.5
    if step < recipe.warmup_steps:
        return highest * step / recipe.warmup_steps
    beyond = (step - recipe.warmup_steps) / max(1, recipe.steps - recipe.warmup_steps)
    match recipe.schedule:
        case "inverse_sqrt":
            return highest * math.sqrt(max(1, recipe.warmup_steps) / step)
        case "cosine":
            return highest * 0.5 * (1 + math.cos(math.pi * min(1.0, beyond)))
        case "linear":
            return highest * max(0.0, 1 - beyond)
        case "constant":
            return highest
