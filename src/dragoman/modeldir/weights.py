"""The weights of a model directory as NumPy arrays, and the names and shapes they must have."""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from dragoman.config import ModelRecipe
from dragoman.errors import DamagedError
from dragoman.modeldir.adapter import merge_adapter
from dragoman.modeldir.layout import INFO, RECIPE, WEIGHTS
from dragoman.modeldir.tensor_file import read_tensor_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

Stored = tuple[str, tuple[int, ...]]  # a tensor's name and shape
EMBEDDING_TABLES: Final = {
    "all": ("shared", "shared", "shared"),
    "target": ("source", "target", "target"),
    "none": ("source", "target", "output"),
}
"""For each value of `model.tie`, the tables of source embedding, target embedding and output projection."""


class Weights(dict[str, "NDArray[np.float32]"]):
    """Tensors by name, each a view of a copy of the file in memory."""

    def __init__(self, path: Path, memory: mmap.mmap) -> None:
        super().__init__()
        self.path, self.memory = path, memory

    def keep_only(self, names: Collection[str]) -> None:
        """Drop all other tensors, and free whole pages of theirs."""
        base = np.frombuffer(self.memory, np.uint8).ctypes.data
        for name in [name for name in self if name not in names]:
            first = self[name].ctypes.data - base
            start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
            length = (first + self.pop(name).nbytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
            if length > 0 and sys.platform != "win32":
                self.memory.madvise(mmap.MADV_DONTNEED, start, length)


def read_weights(directory: Path, adapter: Path | None = None) -> Weights | None:
    """Read `model.safetensors` into memory, with an adapter if given; None if some tensors are not float32."""
    path = directory / WEIGHTS
    memory, tensors = read_tensor_file(path)
    if any(tensor.dtype != "F32" for tensor in tensors.values()):
        return None
    found = Weights(path, memory)
    for name, tensor in tensors.items():
        found[name] = np.frombuffer(memory, np.float32, math.prod(tensor.shape), tensor.first).reshape(tensor.shape)
    if adapter is not None:
        merge_adapter(found, adapter)
    return found


def check_tensors(path: Path, found: Mapping[str, Sequence[int]], expected: Iterable[Stored]) -> None:
    """Raise DamagedError unless the names and shapes of the weights match the recipe and `model.json`."""
    names, described = set(), f"{RECIPE} and {INFO} next to it"
    for name, shape in expected:
        names.add(name)
        if tuple(found.get(name, ())) != shape or name not in found:
            has = f"the tensor {name} of shape {tuple(found[name])}" if name in found else f"no tensor {name}"
            message = f"{path} has {has}, but {described} require shape {shape}; restore them from a copy"
            raise DamagedError(message, code="weights_mismatch")
    if extra := sorted(found.keys() - names):
        message = f"{path} has an extra tensor {extra[0]}, unknown to {described}; restore them from a copy"
        raise DamagedError(message, code="weights_mismatch")


def tensor_layout(recipe: ModelRecipe, vocabulary: tuple[int, int]) -> Iterator[Stored | None]:
    """Yield name and shape of each tensor of a Transformer with standard layers.

    The order is that of native/translate/model.c; None stands for a tensor that the model does not have.
    """
    d, d_ff, pre = recipe.d_model, recipe.d_ff, recipe.norm_order == "pre"
    keys, values = recipe.n_heads * recipe.key_size, recipe.n_heads * recipe.value_size
    source, target, output = (
        (f"embeddings.tables.{name}", (size, d))
        for name, size in zip(EMBEDDING_TABLES[recipe.tie], (*vocabulary, vocabulary[1]), strict=True)
    )
    learned = recipe.positions == "learned"
    yield from (source, target)
    yield from (
        (f"{side}_positions.table", (recipe.max_positions, d)) if learned else None for side in ("source", "target")
    )
    yield from (output, ("embeddings.output_bias", vocabulary[1:]) if recipe.output_bias else None)

    def norm(name: str, present: bool = True) -> list[Stored | None]:
        return [(f"{name}.weight", (d,)), (f"{name}.bias", (d,))] if present else [None, None]

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
            for function in (f"{side}.{i}.attention.function" for i in range(layers)):
                yield f"{function}.key_table", (distances, recipe.key_size)
                yield f"{function}.value_table", (distances, recipe.value_size)
