"""How long the texts are that models can read and write, and whether they read trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dragoman.config import ModelRecipe, Recipe


@dataclass(frozen=True)
class Reach:
    """What is within reach of every one of the models that translate together, or of the one that translates alone.

    `longest` is the most tokens of a source that is not split, `source` and `output` the most that there are positions
    for, None where they do not end. `reader` is the model that says whether sentences come with trees.
    """

    longest: int
    source: int | None
    output: int | None
    reader: ModelRecipe

    @classmethod
    def of(cls, recipes: Sequence[Recipe]) -> Reach:
        """The least of all; one model that reads trees is enough for sentences to need them."""
        models = [recipe.model for recipe in recipes]
        outputs = [learned(model) for model in models if model.positions == "learned"]
        sources = [learned(model) for model in models if model.positions == "learned" or model.pattern == "low_rank"]
        return cls(
            min([*(recipe.data.max_tokens for recipe in recipes), *sources]),
            min(sources, default=None),
            min(outputs, default=None),
            next((model for model in models if model.reads_trees), models[0]),
        )


def learned(model: ModelRecipe) -> int:
    """How many tokens there are positions for: a mark needs one too."""
    return model.max_positions - 1
