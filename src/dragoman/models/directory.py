"""A model is a directory that a person can read: recipe.toml, model.safetensors, the tokenisers' files, a manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.config import ModelRecipe, Recipe
from dragoman.errors import DamagedError
from dragoman.files import ABOUT, RECIPE, WEIGHTS, verify_manifest
from dragoman.models.transformer import Transformer

__all__ = ["ABOUT", "RECIPE", "WEIGHTS", "build", "load_model", "load_weights", "write_model"]


def build(recipe: ModelRecipe, vocabulary: int | tuple[int, int], pad: int) -> Transformer:
    """The model that a recipe describes."""
    match recipe.architecture:
        case "transformer":
            return Transformer(recipe, vocabulary, pad)


def write_model(
    directory: Path, recipe: Recipe, vocabulary: int | tuple[int, int], weights: Mapping[str, Tensor]
) -> None:
    """Write the files that `load_model` reads into a directory that the caller stages and closes with a manifest."""
    from safetensors.torch import save_file

    save_file({name: w.detach().cpu().contiguous() for name, w in weights.items()}, directory / WEIGHTS)
    (directory / RECIPE).write_text(recipe.to_toml(), encoding="utf-8")
    (directory / ABOUT).write_text(json.dumps({"vocabulary": vocabulary}) + "\n", encoding="utf-8")


def load_model(directory: Path, pad: int, device: torch.device | str = "cpu") -> tuple[nn.Module, Recipe]:
    """The model of a directory, verified and ready to translate, with its recipe."""
    if not (directory / RECIPE).is_file():
        raise DamagedError(f"{directory} is not a model: it has no {RECIPE}; give the --out of a finished training")
    verify_manifest(directory)
    recipe = Recipe.load(directory / RECIPE)
    vocabulary = json.loads((directory / ABOUT).read_text(encoding="utf-8"))["vocabulary"]
    model = build(recipe.model, tuple(vocabulary) if isinstance(vocabulary, list) else vocabulary, pad)
    model.load_state_dict(load_weights(directory))
    return model.to(device).eval(), recipe


def load_weights(directory: Path) -> dict[str, Tensor]:
    """The weights of a model directory."""
    from safetensors.torch import load_file

    weights: dict[str, Tensor] = load_file(directory / WEIGHTS)
    return weights
