"""A model to export: its weights as NumPy arrays and its tokenizers, checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dragoman.config import ModelRecipe, Recipe
from dragoman.conversion.exports.sentencepiece_files import ExportedTokenizers, export_tokenizers
from dragoman.errors import ConversionError
from dragoman.modeldir.info import ModelInfo, read_info
from dragoman.modeldir.layout import CARD, load_tokenizers, verify_model
from dragoman.modeldir.locate import read_recipe
from dragoman.modeldir.weights import check_tensors, read_weights, tensor_layout

Array = NDArray[np.float32]


@dataclass(frozen=True)
class ExportedModel:
    """The content of a verified model directory; `tokenizers` are those of source and target."""

    directory: Path
    recipe: Recipe
    info: ModelInfo
    weights: dict[str, Array]
    tokenizers: ExportedTokenizers

    @property
    def model(self) -> ModelRecipe:
        """The settings of the model."""
        return self.recipe.model

    @property
    def card(self) -> str:
        """The model card; empty if it was removed."""
        path = self.directory / CARD
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def read_exported(directory: Path) -> ExportedModel:
    """Verify and read a model of standard layers; those of other models are rejected before, by `export`."""
    verify_model(directory)
    recipe, info = read_recipe(directory), read_info(directory)
    weights = read_weights(directory)
    if weights is None:
        raise ConversionError(
            f"the weights of {directory} are not float32; export a model written by `dragoman train`",
            code="unsupported_precision",
        )
    expected = [tensor for tensor in tensor_layout(recipe.model, info.vocabulary_sizes) if tensor]
    check_tensors(weights.path, {name: w.shape for name, w in weights.items()}, expected)
    return ExportedModel(directory, recipe, info, dict(weights), export_tokenizers(*load_tokenizers(directory), info))


def unsupported(toolkit: str, part: str) -> ConversionError:
    """The error for a part of a model that a toolkit cannot express."""
    return ConversionError(f"{toolkit} cannot express {part}; choose another format", code="unsupported_model")
