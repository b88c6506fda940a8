"""A model is a directory that a person can read: recipe.toml, model.safetensors, the tokenizers' files, a manifest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from dragoman.config import ModelRecipe, Recipe
from dragoman.errors import DamagedError
from dragoman.files import ABOUT, NEEDED, RECIPE, WEIGHTS, check_tensors, stored_vocabulary, verify_manifest
from dragoman.models.convolutional import Convolutional
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.recurrent import Recurrent
from dragoman.models.transformer import Transformer

__all__ = ["ABOUT", "RECIPE", "WEIGHTS", "build", "load_model", "load_weights", "write_model"]


def build(recipe: ModelRecipe, vocabulary: int | tuple[int, int], pad: int) -> EncoderDecoder:
    """The model that a recipe describes."""
    match recipe.architecture:
        case "transformer":
            return Transformer(recipe, vocabulary, pad)
        case "recurrent":
            return Recurrent(recipe, vocabulary, pad)
        case "convolutional":
            return Convolutional(recipe, vocabulary, pad)


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
    verify_manifest(directory, NEEDED)
    recipe = Recipe.load(directory / RECIPE)
    vocabulary, weights = stored_vocabulary(directory), load_weights(directory)
    numbers, least = sum(w.numel() for w in weights.values()), least_numbers(recipe.model, vocabulary)
    if numbers < least:  # before memory is asked for: the sizes of a damaged recipe may be any
        raise DamagedError(
            f"{directory / WEIGHTS} has {numbers:,} numbers; {RECIPE} and {ABOUT} beside it ask for over {least:,}; "
            "restore them from a copy"
        )
    model = build(recipe.model, vocabulary, pad)
    expected = [(name, tuple(w.shape)) for name, w in model.state_dict().items()]
    check_tensors(directory / WEIGHTS, {name: w.shape for name, w in weights.items()}, expected)
    model.load_state_dict(weights)
    return model.to(device).eval(), recipe


def least_numbers(recipe: ModelRecipe, vocabulary: int | tuple[int, int]) -> int:
    """No such model has fewer numbers: the matrices that each has, whatever its kind of attention and norms."""
    table = vocabulary if isinstance(vocabulary, int) else sum(vocabulary)
    places = {"learned": 2 * recipe.max_positions, "syntax": recipe.d_model}.get(recipe.positions, 0)
    layers = recipe.encoder_layers + recipe.decoder_layers
    match recipe.architecture:
        case "transformer":
            of_layer = 2 * recipe.d_ff + recipe.n_heads * (recipe.key_size + 2 * recipe.value_size)
        case "recurrent":
            of_layer = 2 * recipe.d_model * {"lstm": 4, "gru": 3}[recipe.cell]
        case "convolutional":
            of_layer = 2 * recipe.d_model * recipe.kernel_width
    mixes = 2 * recipe.rank * recipe.max_positions * recipe.encoder_layers if recipe.pattern == "low_rank" else 0
    told = 2 * recipe.max_distance * (recipe.key_size + recipe.value_size) if recipe.positions == "relative" else 0
    return recipe.d_model * (table + places + layers * of_layer) + mixes + layers * told


def load_weights(directory: Path) -> dict[str, Tensor]:
    """The weights of a model directory."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = directory / WEIGHTS
    try:
        weights: dict[str, Tensor] = load_file(path)
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None
    return weights
