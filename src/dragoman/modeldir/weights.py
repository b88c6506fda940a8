"""The weights of a model directory without PyTorch and without a copy: the file itself, mapped."""

from __future__ import annotations

import errno
import json
import math
import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dragoman.config import ModelRecipe
from dragoman.errors import DamagedError
from dragoman.files import WEIGHTS

Stored = tuple[str, tuple[int, ...]]  # a tensor's name and shape


class Weights(dict[str, NDArray[np.float32]]):
    """Tensors by name, each a view of the mapped file."""

    def __init__(self, path: Path, file: mmap.mmap) -> None:
        super().__init__()
        self.path, self.file = path, file

    def let_go(self) -> None:
        """Give the memory of what was read back; what is read again comes from the file again."""
        self.file.madvise(mmap.MADV_DONTNEED)


def map_weights(directory: Path) -> Weights | None:
    """The tensors of `model.safetensors`; None where some are not float32.

    The format is a length, a JSON header with each tensor's type, shape and place, and the tensors.
    """
    path = directory / WEIGHTS
    try:
        with path.open("rb") as file:
            whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _views(path, whole)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENOMEM:
            raise MemoryError(f"there is no memory for the weights of {path}") from None
        raise DamagedError(f"{path} cannot be read ({type(error).__name__}: {error}); restore it from a copy") from None


def _views(path: Path, whole: mmap.mmap) -> Weights | None:
    start = 8 + int.from_bytes(whole[:8], "little")
    header: dict[str, Any] = json.loads(whole[8:start])
    header.pop("__metadata__", None)
    found = Weights(path, whole)
    for name, about in header.items():
        if about["dtype"] != "F32":
            return None
        (first, last), shape = about["data_offsets"], tuple(about["shape"])
        if min((*shape, first)) < 0 or last - first != 4 * math.prod(shape):
            raise ValueError(f"{name} of shape {shape} lies from byte {first} to {last}")
        found[name] = np.frombuffer(whole, np.float32, math.prod(shape), start + first).reshape(shape)
    return found


def tensors_of(recipe: ModelRecipe, vocabulary: tuple[int, int]) -> Iterator[Stored | None]:
    """Name and shape of the weights of a model with the paper's kind of layers.

    They come in the order in which native/model.h takes them, with None for those that such a model lacks.
    """
    tables = {"all": ("shared",) * 3, "target": ("source", "target", "target"), "none": ("source", "target", "output")}
    d, d_ff, pre = recipe.d_model, recipe.d_ff, recipe.norm_order == "pre"
    keys, values = recipe.n_heads * recipe.key_size, recipe.n_heads * recipe.value_size
    source, target, output = (
        (f"embeddings.tables.{name}", (size, d))
        for name, size in zip(tables[recipe.tie], (*vocabulary, vocabulary[1]), strict=True)
    )
    places = recipe.positions == "learned"
    yield from (source, target)
    yield from (
        (f"{side}_positions.table", (recipe.max_positions, d)) if places else None for side in ("source", "target")
    )
    yield from (output, ("embeddings.output_bias", vocabulary[1:]) if recipe.output_bias else None)

    def norm(name: str, there: bool = True) -> list[Stored | None]:
        return [(f"{name}.weight", (d,)), (f"{name}.bias", (d,))] if there else [None, None]

    def linear(name: str, outputs: int, inputs: int, bias: bool = recipe.attention_bias) -> list[Stored | None]:
        return [(f"{name}.weight", (outputs, inputs)), (f"{name}.bias", (outputs,)) if bias else None]

    yield from norm("encoder_norm", pre)
    yield from norm("decoder_norm", pre)
    for side, layers in (("encoder", recipe.encoder_layers), ("decoder", recipe.decoder_layers)):
        for layer in (f"{side}.{i}" for i in range(layers)):
            yield from linear(f"{layer}.attention.qkv", 2 * keys + values, d)
            yield from linear(f"{layer}.attention.output", d, values)
            yield from norm(f"{layer}.around_attention.norm")
            if side == "decoder":
                yield from linear(f"{layer}.cross.query", keys, d)
                yield from linear(f"{layer}.cross.key_value", keys + values, d)
                yield from linear(f"{layer}.cross.output", d, values)
                yield from norm(f"{layer}.around_cross.norm")
            yield from linear(f"{layer}.feed_forward.inner", d_ff, d, bias=True)
            yield from linear(f"{layer}.feed_forward.outer", d, d_ff, bias=True)
            yield from norm(f"{layer}.around_feed_forward.norm")
    if recipe.positions == "relative":
        distances = 2 * recipe.max_distance + 1
        for side, layers in (("encoder", recipe.encoder_layers), ("decoder", recipe.decoder_layers)):
            for told in (f"{side}.{i}.attention.function" for i in range(layers)):
                yield f"{told}.key_table", (distances, recipe.key_size)
                yield f"{told}.value_table", (distances, recipe.value_size)
