"""The learning-rate schedule (section 5.3)."""

from __future__ import annotations

import math

from dragoman.config import TrainRecipe


def learning_rate(recipe: TrainRecipe, d_model: int, step: int) -> float:
    """The rate of step 1, 2, ...

    The paper's is d_model^-0.5 * min(step^-0.5, step * warmup_steps^-1.5): it rises linearly to its peak,
    (d_model * warmup_steps)^-0.5, and falls with the square root of the step. With the same peak, "cosine" and "linear"
    fall to zero at the last step, and "constant" stays.
    """
    peak = recipe.learning_rate if recipe.learning_rate is not None else (d_model * recipe.warmup_steps) ** -0.5
    if step < recipe.warmup_steps:
        return peak * step / recipe.warmup_steps
    progress = (step - recipe.warmup_steps) / max(1, recipe.steps - recipe.warmup_steps)
    match recipe.schedule:
        case "inverse_sqrt":
            return peak * math.sqrt(max(1, recipe.warmup_steps) / step)
        case "cosine":
            return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        case "linear":
            return peak * max(0.0, 1 - progress)
        case "constant":
            return peak
