"""The recipe: every setting of a run, as frozen dataclasses read from TOML.

    recipe = Recipe.load("base", ["model.dropout=0.3", "model.norm_order=pre"])

A recipe is a name from `PRESETS`, or a TOML file with one table per section; `[model] preset = "base"` starts the model
from a preset, and the other keys override it. Errors suggest valid names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dragoman.config.model import ModelRecipe
from dragoman.config.sectioned import SectionedRecipe, apply_changes
from dragoman.config.sections import DataRecipe, TextRecipe, TrainRecipe
from dragoman.errors import RecipeError


@dataclass(frozen=True)
class Recipe(SectionedRecipe):
    """All settings of one run, in sections."""

    model: ModelRecipe = field(default_factory=ModelRecipe)
    text: TextRecipe = field(default_factory=TextRecipe)
    data: DataRecipe = field(default_factory=DataRecipe)
    train: TrainRecipe = field(default_factory=TrainRecipe)

    def __post_init__(self) -> None:
        """Reject sections of the wrong type, and combinations that do not work."""
        self._check_sections()
        if self.text.targets and self.model.reads_trees:
            raise RecipeError(
                f"text.targets={list(self.text.targets)} cannot be combined with model.positions='syntax': a "
                "language token has no place in a tree; use other positions, or one model per language",
                code="conflicting_settings",
            )
        model = self.model
        if self.train.r_drop and not (model.dropout or model.attention_dropout or model.feed_forward_dropout):
            raise RecipeError(
                f"train.r_drop={self.train.r_drop} needs dropout: without it, both passes are the same; set "
                "model.dropout, or train.r_drop=0",
                code="conflicting_settings",
            )

        if self.train.alignment_weight:
            check_guided_head(model, self.train)
        if self.train.lora:
            self._check_lora()

    def _check_lora(self) -> None:
        """Reject settings that do not go with adapters."""
        if self.train.lora > self.model.d_model:
            raise RecipeError(
                f"train.lora={self.train.lora} is more than model.d_model={self.model.d_model}, so it is not a low "
                "rank; use 16, for example",
                code="out_of_range",
            )
        if self.model.norm == "batch" or self.train.parallel == "fsdp":
            other = "model.norm='batch'" if self.model.norm == "batch" else "train.parallel='fsdp'"
            raise RecipeError(
                f"train.lora={self.train.lora} cannot be combined with {other}; fine-tune the whole model with "
                "train.lora=0, or use another setting",
                code="conflicting_settings",
            )

    def _unused_in(self, section: str) -> set[str]:
        """An empty list of target languages, and the settings of adapters without any, are left out."""
        if section == "train" and not self.train.lora:
            return {"lora", "lora_alpha", "lora_projections"}
        return {"targets"} if section == "text" and not self.text.targets else set()


def check_guided_head(model: ModelRecipe, train: TrainRecipe) -> None:
    """Reject guided alignment of a head that the model does not have."""
    if model.architecture != "transformer" or model.attention != "scaled_dot_product":
        raise RecipeError(
            f"train.alignment_weight={train.alignment_weight} needs a Transformer with dot-product attention; set "
            "train.alignment_weight=0",
            code="conflicting_settings",
        )
    limits = (
        ("alignment_layer", train.alignment_layer, model.decoder_layers),
        ("alignment_head", train.alignment_head, model.n_heads),
    )
    for name, value, most in limits:
        if value > most:
            raise RecipeError(f"train.{name}={value} does not exist: the model has {most}", code="out_of_range")


def guided_head(recipe: Recipe) -> tuple[int, int] | None:
    """The layer and head of guided alignment, counted from 0; None without it."""
    if not recipe.train.alignment_weight:
        return None
    layer = recipe.train.alignment_layer or max(1, recipe.model.decoder_layers - 1)
    return layer - 1, recipe.train.alignment_head - 1


def load_recipe(recipe: Recipe | str | Path, changes: Sequence[str] = ()) -> Recipe:
    """A recipe, or that of a preset or TOML file, with `changes` such as "model.dropout=0.3"."""
    if not isinstance(recipe, Recipe):
        return Recipe.load(recipe, changes)
    table = tomllib.loads(recipe.to_toml())
    apply_changes(table, changes)
    return Recipe.from_table(table)
