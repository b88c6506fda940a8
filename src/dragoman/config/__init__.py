"""Every choice of a run, in words: the recipe, its sections and the presets."""

from dragoman.config.model import IN_ATTENTION, PRESETS, ModelRecipe, idle_keys, preset_for
from dragoman.config.recipe import Recipe, toml_value
from dragoman.config.sections import DataRecipe, TextRecipe, TrainRecipe

__all__ = [
    "IN_ATTENTION",
    "PRESETS",
    "DataRecipe",
    "ModelRecipe",
    "Recipe",
    "TextRecipe",
    "TrainRecipe",
    "idle_keys",
    "preset_for",
    "toml_value",
]
