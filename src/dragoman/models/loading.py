"""Build models from recipes, and load them from model directories."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dragoman.config import ModelRecipe, Recipe
from dragoman.errors import DamagedError
from dragoman.files import verify_manifest
from dragoman.modeldir.adapter import merge_adapter
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import EDITABLE, INFO, RECIPE, REQUIRED, WEIGHTS
from dragoman.modeldir.locate import read_recipe
from dragoman.modeldir.tensor_file import ITEM_BYTES, read_tensor_file
from dragoman.modeldir.weights import check_tensors, read_weights
from dragoman.models.bottleneck import Bottleneck
from dragoman.models.convolutional import Convolutional
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.recurrent import Recurrent
from dragoman.models.transformer import Transformer

TENSOR_TYPES: Final = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "C64": torch.complex64,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2, "BOOL": torch.bool,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8,
}  # fmt: skip


def build_model(recipe: ModelRecipe, vocabulary: int | tuple[int, int], pad: int) -> EncoderDecoder:
    """Build the model that a recipe describes, with random weights."""
    match recipe.architecture:
        case "transformer":
            return Transformer(recipe, vocabulary, pad)
        case "recurrent" if recipe.attention == "none":
            return Bottleneck(recipe, vocabulary, pad)
        case "recurrent":
            return Recurrent(recipe, vocabulary, pad)
        case "convolutional":
            return Convolutional(recipe, vocabulary, pad)


def load_model(
    directory: Path, pad: int, device: torch.device | str = "cpu", adapter: Path | None = None
) -> tuple[nn.Module, Recipe]:
    """Verify and load the model in a directory, in evaluation mode; return it with its recipe.

    `adapter` is a verified adapter of this model.
    """
    recipe = read_recipe(directory)
    verify_manifest(directory, REQUIRED, EDITABLE)
    vocabulary, weights = read_info(directory).vocabulary, load_weights(directory, adapter)
    count, minimum = sum(w.numel() for w in weights.values()), min_parameter_count(recipe.model, vocabulary)
    if count < minimum:  # checked before allocating memory: a damaged recipe may describe a model of any size
        raise DamagedError(
            f"{directory / WEIGHTS} has {count:,} numbers, but {RECIPE} and {INFO} require over {minimum:,}; "
            "restore them from a copy",
            code="weights_mismatch",
        )
    model = build_model(recipe.model, vocabulary, pad)
    expected = [(name, tuple(w.shape)) for name, w in model.state_dict().items()]
    check_tensors(directory / WEIGHTS, {name: w.shape for name, w in weights.items()}, expected)
    model.load_state_dict(weights)
    return model.to(device).eval(), recipe


def parameter_counts(recipe: ModelRecipe, vocabulary: int) -> dict[str, int]:
    """The number of weights in each part of a model, computed without allocating them."""
    sizes = vocabulary if recipe.tie == "all" else (vocabulary, vocabulary)
    with torch.device("meta"):
        model = build_model(recipe, sizes, pad=0)
    counts: dict[str, int] = {}
    for name, weights in model.named_parameters():
        part = name.partition(".")[0].removesuffix("_norm").removesuffix("_keys")  # the last norm belongs to its stack
        part = "positions" if part.endswith("_positions") else part
        counts[part] = counts.get(part, 0) + weights.numel()
    return counts


def min_parameter_count(recipe: ModelRecipe, vocabulary: int | tuple[int, int]) -> int:
    """A lower bound on the parameter count: the matrices that every model has, whatever its attention and norms."""
    rows = vocabulary if isinstance(vocabulary, int) else sum(vocabulary)
    positions = {"learned": 2 * recipe.max_positions, "syntax": recipe.d_model}.get(recipe.positions, 0)
    layers = recipe.encoder_layers + recipe.decoder_layers
    match recipe.architecture:
        case "transformer":
            per_layer = 2 * recipe.d_ff + recipe.n_heads * (recipe.key_size + 2 * recipe.value_size)
        case "recurrent":
            per_layer = 2 * recipe.d_model * {"lstm": 4, "gru": 3, "rnn": 1}[recipe.cell]
        case "convolutional":
            per_layer = 2 * recipe.d_model * recipe.kernel_width
    low_rank = 2 * recipe.rank * recipe.max_positions * recipe.encoder_layers if recipe.pattern == "low_rank" else 0
    relative = 2 * recipe.max_distance * (recipe.key_size + recipe.value_size) if recipe.positions == "relative" else 0
    return recipe.d_model * (rows + positions + layers * per_layer) + low_rank + layers * relative


def load_weights(directory: Path, adapter: Path | None = None) -> dict[str, Tensor]:
    """Load the weights of a model directory, with a verified adapter if given; int8 becomes float32."""
    weights = read_weights(directory, adapter)
    if weights is not None:
        return {name: torch.from_numpy(np.require(tensor, requirements="A")) for name, tensor in weights.items()}
    tensors = read_tensors(directory / WEIGHTS)  # other types, which NumPy may lack
    if adapter is not None:
        merge_adapter({name: w.numpy() for name, w in tensors.items()}, adapter)  # the arrays share their memory
    return tensors


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file; what happens to the file afterwards does not matter."""
    memory, tensors = read_tensor_file(path)
    content = torch.frombuffer(memory, dtype=torch.uint8)
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        part = content[tensor.first : tensor.last]
        if tensor.first % ITEM_BYTES[tensor.dtype]:  # only other programs write tensors that are not aligned
            part = part.clone()
        found[name] = part.view(TENSOR_TYPES[tensor.dtype]).reshape(tensor.shape)
    return found


def as_arrays(weights: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Weights as NumPy arrays, as `save_model` takes them."""
    return {name: weight.detach().cpu().contiguous().numpy() for name, weight in weights.items()}  # stored as bytes
