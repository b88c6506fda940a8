"""The recipe of a run: its sections and the presets."""

from dragoman.config.model import IN_ATTENTION, PRESETS, ModelRecipe, preset_for, unused_keys
from dragoman.config.recipe import Recipe, load_recipe
from dragoman.config.sectioned import Changes, as_changes, toml_value
from dragoman.config.sections import DataRecipe, TextRecipe, TrainRecipe

__all__ = [
    "IN_ATTENTION",
    "PRESETS",
    "Changes",
    "DataRecipe",
    "ModelRecipe",
    "Recipe",
    "TextRecipe",
    "TrainRecipe",
    "as_changes",
    "load_recipe",
    "preset_for",
    "toml_value",
    "unused_keys",
]
