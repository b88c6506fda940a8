"""The weights of a model directory as NumPy arrays, and the names and shapes they must have."""

from __future__ import annotations

import hashlib
import math
import mmap
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from dragoman.config import ModelRecipe
from dragoman.errors import DamagedError
from dragoman.files import sha256
from dragoman.modeldir.adapter import merge_adapter
from dragoman.modeldir.int8 import Int8Matrix, join_parts, pair_scales, weight_file_names
from dragoman.modeldir.layout import INFO, RECIPE, WEIGHTS
from dragoman.modeldir.tensor_file import read_tensor_file

if TYPE_CHECKING:
    from dragoman.arrays import FloatArray

NUMPY_TYPES: Final = {"F32": np.float32, "I8": np.int8}
Stored = tuple[str, tuple[int, ...]]  # a tensor's name and shape
EMBEDDING_TABLES: Final = {
    "all": ("shared", "shared", "shared"),
    "target": ("source", "target", "target"),
    "none": ("source", "target", "output"),
}
"""For each value of `model.tie`, the tables of source embedding, target embedding and output projection."""


class Weights(Mapping[str, "FloatArray"]):
    """Tensors by name, in float32; matrices that are stored in int8 are converted when they are first used.

    Each is a view of a copy of its file in memory, or was computed from one.
    """

    def __init__(
        self, path: Path, memories: Sequence[mmap.mmap], floats: dict[str, FloatArray], int8: dict[str, Int8Matrix]
    ) -> None:
        self.path, self.memories, self.floats, self.int8 = path, memories, floats, int8

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor."""
        return {name: tensor.shape for name, tensor in self.floats.items()} | {
            name: matrix.values.shape for name, matrix in self.int8.items()
        }

    def __getitem__(self, name: str) -> FloatArray:
        if name not in self.floats:
            self.floats[name] = self.int8[name].to_float()
        return self.floats[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def keep_only(self, names: Collection[str]) -> None:
        """Drop all other tensors, and the int8 form of all; free whole pages of theirs."""
        kept = {name: self[name] for name in names if name in self}
        dropped = [tensor for name, tensor in self.floats.items() if name not in kept]
        dropped += [matrix.values for matrix in self.int8.values()]
        bases = [np.frombuffer(memory, np.uint8).ctypes.data for memory in self.memories]
        self.floats, self.int8 = kept, {}
        for tensor in dropped:
            for base, memory in zip(bases, self.memories, strict=True):
                if not 0 <= (first := tensor.ctypes.data - base) < len(memory):
                    continue
                start = -(-first // mmap.PAGESIZE) * mmap.PAGESIZE
                length = (first + tensor.nbytes - start) // mmap.PAGESIZE * mmap.PAGESIZE
                if length > 0 and sys.platform != "win32":
                    memory.madvise(mmap.MADV_DONTNEED, start, length)


def read_weights(directory: Path, adapter: Path | None = None) -> Weights | None:
    """Read the weights of a model into memory, with an adapter if given.

    None if some tensors are neither float32 nor int8 with scales.
    """
    memories, tensors = [], {}
    for path in weight_files(directory):
        memory, entries = read_tensor_file(path)
        memories.append(memory)
        if any(entry.dtype not in NUMPY_TYPES for entry in entries.values()):
            return None
        for name, entry in entries.items():
            if name in tensors:
                raise DamagedError(f"{path} repeats the tensor {name} of another file; restore it from a copy")
            count = math.prod(entry.shape)
            tensor = np.frombuffer(memory, NUMPY_TYPES[entry.dtype], count, entry.first).reshape(entry.shape)
            tensors[name] = tensor if tensor.flags.aligned else tensor.copy()  # C reads aligned floats
    try:
        found = Weights(directory / WEIGHTS, memories, *pair_scales(join_parts(tensors)))
    except ValueError as error:
        raise DamagedError(f"{directory / WEIGHTS} is damaged: {error}; restore it from a copy") from None
    if adapter is not None:
        stored = set(found.floats)
        merge_adapter(found, adapter)
        for name in found.floats.keys() - stored:  # adapted, so no longer what is stored in int8
            del found.int8[name]
    return found


def weight_files(directory: Path) -> list[Path]:
    """The files with the weights of a model: `model.safetensors`, then `model-2.safetensors` and so on."""
    names = weight_file_names((path.name for path in directory.glob("*.safetensors")), WEIGHTS)
    return [directory / name for name in names]


def weights_sha256(directory: Path) -> str:
    """The SHA-256 of the weights: of the file or, if there are several, of their digests."""
    digests = [sha256(path) for path in weight_files(directory)]
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


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
            if side == "decoder" and recipe.autoregression == "ssru":
                yield from linear(f"{layer}.attention.value", d, d, bias=False)
                yield from linear(f"{layer}.attention.gate", d, d, bias=True)
            else:
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
        decoder_layers = 0 if recipe.autoregression == "ssru" else recipe.decoder_layers
        for side, layers in (("encoder", recipe.encoder_layers), ("decoder", decoder_layers)):
            for function in (f"{side}.{i}.attention.function" for i in range(layers)):
                yield f"{function}.key_table", (distances, recipe.key_size)
                yield f"{function}.value_table", (distances, recipe.value_size)
