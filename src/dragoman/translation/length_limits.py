"""The lengths that models can read and write, and whether they read trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.config import ModelRecipe, Recipe


@dataclass(frozen=True)
class LengthLimits:
    """Limits that hold for every model of an ensemble, or for a single model.

    `longest` is the longest source, in tokens, that is not split; `source` and `output` are the numbers of positions,
    None where they are unlimited. `tree_model` is the model that decides whether sentences come with trees.
    """

    longest: int
    source: int | None
    output: int | None
    tree_model: ModelRecipe

    @classmethod
    def of(cls, recipes: Sequence[Recipe]) -> LengthLimits:
        """The smallest limits of all; one model that reads trees is enough for sentences to need them."""
        models = [recipe.model for recipe in recipes]
        outputs = [_positions(model) for model in models if model.positions == "learned"]
        sources = [_positions(model) for model in models if model.positions == "learned" or model.pattern == "low_rank"]
        return cls(
            min([*(recipe.data.max_tokens for recipe in recipes), *sources]),
            min(sources, default=None),
            min(outputs, default=None),
            next((model for model in models if model.reads_trees), models[0]),
        )


def _positions(model: ModelRecipe) -> int:
    """The number of tokens that there are positions for; the end mark needs one too."""
    return model.max_positions - 1
