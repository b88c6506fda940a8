"""Convert a model directory for CTranslate2, and keep what is converted in the cache."""

from __future__ import annotations

import hashlib
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dragoman.config import ModelRecipe
from dragoman.engines.base import unusual_part
from dragoman.engines.specs import CTRANSLATE2
from dragoman.errors import DamagedError, DragomanError, MissingExtraError
from dragoman.files import MANIFEST, check_new_directory, manifest_entries, staged, write_manifest
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import RECIPE
from dragoman.modeldir.locate import read_recipe
from dragoman.modeldir.weights import EMBEDDING_TABLES, check_tensors, read_weights, tensor_layout
from dragoman.native.cache import private_directory, read_private
from dragoman.text.special_tokens import BOS, EOS, PAD, UNK
from dragoman.values import plural, suggest

CTRANSLATE2_ACTIVATIONS: Final = {"relu": "RELU", "gelu": "GELU", "silu": "SWISH", "tanh": "Tanh"}
MAX_POSITIONS: Final = 4096  # CTranslate2 needs a table of sines and cosines
Tensors = Mapping[str, NDArray[np.float32]]
MODEL: Final = "model"  # the folder of a converted model in its place of the cache
SPECIAL_NAMES: Final = {PAD: "<pad>", BOS: "<s>", EOS: "</s>", UNK: "<unk>"}


def unsupported_by_ctranslate2(recipe: ModelRecipe) -> str | None:
    """The first part of a model that CTranslate2 does not support."""
    if part := unusual_part(recipe, CTRANSLATE2.position_codes):
        return part
    if recipe.n_heads * recipe.key_size != recipe.d_model or recipe.n_heads * recipe.value_size != recipe.d_model:
        return "heads whose width is not d_model / n_heads"
    return None


def converted_files(directory: Path, cached: Path, kind: str, adapter: Path | None = None) -> dict[str, bytes]:
    """The files of the converted model; it is converted if `cached` does not have it, byte for byte."""
    if cached.is_dir():
        try:
            return read_converted(cached)
        except DamagedError as error:
            logging.getLogger("dragoman").warning("%s; converting the model again", error)
    with staged(cached) as staging:
        to_ctranslate2(directory, staging / MODEL, kind, adapter=adapter)
        for file in (staging / MODEL).iterdir():
            file.chmod(0o600)
        write_manifest(staging / MODEL)
    return read_converted(cached)


def read_converted(cached: Path) -> dict[str, bytes]:
    """The content of each file of a converted model in the cache, verified by SHA-256 as it is read."""
    folder, files = private_directory(cached / MODEL), {}
    try:
        read_private(folder / MANIFEST)
        for name, entry in manifest_entries(folder).items():
            files[name] = read_private(folder / name)
            if (len(files[name]), hashlib.sha256(files[name]).hexdigest()) != entry:
                raise DamagedError(f"{folder / name} was damaged: its SHA-256 is not the one in {MANIFEST}")
    except (FileNotFoundError, ValueError) as error:  # also a damaged name in the manifest
        raise DamagedError(f"{folder} was damaged ({error})") from None
    return files


def to_ctranslate2(
    directory: str | Path,
    out: str | Path,
    quantization: str | None = None,
    tokens: tuple[Sequence[str], Sequence[str]] | None = None,
    adapter: Path | None = None,
) -> None:
    """Write the model of a verified `directory` to the new directory `out`; `quantization` is "int8", "float16"...

    `tokens` are the names of the source's and the target's tokens; EOS is then added to sources. Without them, a token
    is named by its id, and the four special tokens by their usual names. `adapter` is a verified adapter of the model.
    """
    try:
        from ctranslate2.specs import TransformerSpec, common_spec, model_spec
    except ImportError:
        raise MissingExtraError("ctranslate2", "ctranslate2", "converting to CTranslate2") from None
    directory, out = Path(directory), Path(out)
    if quantization is not None and quantization not in model_spec.ACCEPTED_MODEL_TYPES:
        raise DragomanError(
            f"unknown quantization {quantization!r}{suggest(quantization, sorted(model_spec.ACCEPTED_MODEL_TYPES))}",
            code="unknown_choice",
        )
    check_new_directory(out)
    recipe = read_recipe(directory).model
    if part := unsupported_by_ctranslate2(recipe):
        message = f"CTranslate2 does not support {part}; convert a model with the paper's layers"
        raise DragomanError(message, code="unsupported_model")
    weights = read_weights(directory, adapter)
    if weights is None:
        message = f"the weights of {directory} are not float32; pass a model written by `dragoman train`"
        raise DragomanError(message, code="unsupported_precision")
    source, target = read_info(directory).vocabulary_sizes
    layout = tensor_layout(recipe, (source, target))
    check_tensors(weights.path, weights.shapes, (tensor for tensor in layout if tensor))
    source_names, target_names = ([SPECIAL_NAMES.get(i, str(i)) for i in range(size)] for size in (source, target))
    if tokens is not None:
        for side, names, size in (("source", tokens[0], source), ("target", tokens[1], target)):
            if len(names) != size:
                message = f"got {plural(len(names), 'token')}, but the {side} vocabulary of {directory} has {size:,}"
                raise DragomanError(message, code="count_mismatch")
        source_names, target_names = list(tokens[0]), list(tokens[1])
    layers, pre_norm = (recipe.encoder_layers, recipe.decoder_layers), recipe.norm_order == "pre"
    activation = getattr(common_spec.Activation, CTRANSLATE2_ACTIVATIONS[recipe.activation])
    spec = TransformerSpec.from_config(layers, recipe.n_heads, pre_norm=pre_norm, activation=activation)
    fill_weights(spec, recipe, dict(weights))  # quantized in place
    if recipe.norm_epsilon != ModelRecipe().norm_epsilon:
        spec.config.layer_norm_epsilon = recipe.norm_epsilon
    spec.config.add_source_eos = tokens is not None
    spec.register_source_vocabulary(source_names)
    spec.register_target_vocabulary(target_names)
    spec.validate()
    spec.optimize(quantization=quantization)
    with staged(out) as directory_to_write:
        spec.save(str(directory_to_write))
        shutil.copy(directory / RECIPE, directory_to_write / RECIPE)


def fill_weights(spec: Any, recipe: ModelRecipe, weights: Tensors) -> None:
    """Assign the weights to CTranslate2's specification."""
    embeddings = [weights[f"embeddings.tables.{name}"] for name in EMBEDDING_TABLES[recipe.tie]]
    spec.encoder.embeddings[0].weight, spec.decoder.embeddings.weight = embeddings[:2]
    spec.decoder.projection.weight = embeddings[2]
    if recipe.output_bias:
        spec.decoder.projection.bias = weights["embeddings.output_bias"]
    for side, part in (("source", spec.encoder), ("target", spec.decoder)):
        learned = weights.get(f"{side}_positions.table")
        codes = position_table(MAX_POSITIONS, recipe.d_model) if learned is None else learned
        part.position_encodings.encodings = codes
    if recipe.norm_order == "pre":
        copy_norm(spec.encoder.layer_norm, weights, "encoder_norm")
        copy_norm(spec.decoder.layer_norm, weights, "decoder_norm")
    for side, layers in (("encoder", spec.encoder.layer), ("decoder", spec.decoder.layer)):
        for i, layer in enumerate(layers):
            at = f"{side}.{i}"
            copy_linear(layer.self_attention.linear[0], weights, f"{at}.attention.qkv")
            copy_linear(layer.self_attention.linear[1], weights, f"{at}.attention.output")
            copy_norm(layer.self_attention.layer_norm, weights, f"{at}.around_attention.norm")
            if side == "decoder":
                for j, name in enumerate(("query", "key_value", "output")):
                    copy_linear(layer.attention.linear[j], weights, f"{at}.cross.{name}")
                copy_norm(layer.attention.layer_norm, weights, f"{at}.around_cross.norm")
            copy_linear(layer.ffn.linear_0, weights, f"{at}.feed_forward.inner")
            copy_linear(layer.ffn.linear_1, weights, f"{at}.feed_forward.outer")
            copy_norm(layer.ffn.layer_norm, weights, f"{at}.around_feed_forward.norm")


def copy_linear(spec: Any, weights: Tensors, name: str) -> None:
    """Copy a matrix, and its bias if it has one."""
    spec.weight = weights[f"{name}.weight"]
    if f"{name}.bias" in weights:
        spec.bias = weights[f"{name}.bias"]


def copy_norm(spec: Any, weights: Tensors, name: str) -> None:
    """Copy the gain and bias of a layer norm."""
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def position_table(positions: int, d_model: int) -> NDArray[np.float32]:
    """The position code of section 3.5, `[positions, d_model]`."""
    angle = np.arange(positions)[:, None] * 10000.0 ** (-np.arange(0, d_model, 2) / d_model)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(positions, d_model).astype(np.float32)
