"""A model of the native engine: its weights, packed by C."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dragoman.config import ModelRecipe, Recipe
from dragoman.engines import native_layout
from dragoman.engines.native_layout import STRUCTURES, ModelConfig, unsupported_by_native
from dragoman.errors import DamagedError
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import INFO, RECIPE
from dragoman.modeldir.weights import Weights, check_tensors, read_weights, tensor_layout
from dragoman.native import library
from dragoman.text.special_tokens import EOS

FLOAT_TENSORS: Final = 4  # embeddings and learned positions of both sides: C reads them where they are
Pointers = ctypes.Array[ctypes.c_void_p]


class NativeModel:
    """The packed weights of a Transformer, shared by all workers."""

    def __init__(
        self,
        code: ctypes.CDLL,
        recipe: ModelRecipe,
        vocabulary: tuple[int, int],
        weights: Weights,
        threads: int,
        quantize: bool,
    ) -> None:
        self.code, self.recipe, self.vocabulary = code, recipe, vocabulary
        self.weights = weights  # the C side reads the tables of embeddings and positions
        layout = list(tensor_layout(recipe, vocabulary))
        check_tensors(weights.path, weights.shapes, (tensor for tensor in layout if tensor))
        tensors, scales = addresses([tensor and tensor[0] for tensor in layout], weights)
        shape = ModelConfig(
            recipe.d_model, recipe.n_heads, recipe.key_size, recipe.value_size, recipe.d_ff,
            recipe.encoder_layers, recipe.decoder_layers, *vocabulary,
            native_layout.ACTIVATION_CODES[recipe.activation], native_layout.POSITION_CODES[recipe.positions],
            recipe.max_positions, recipe.norm_order == "pre", quantize, threads, recipe.max_distance,
            recipe.autoregression == "ssru", recipe.norm_epsilon,
        )  # fmt: skip
        self.address = ctypes.c_void_p(code.model_new(ctypes.byref(shape), tensors, scales))
        if not self.address:
            raise MemoryError("not enough memory for the model's packed weights")
        weights.keep_only([tensor[0] for tensor in layout[:FLOAT_TENSORS] if tensor])

    @classmethod
    def load(cls, directory: Path, threads: int, quantize: bool, adapter: Path | None = None) -> NativeModel | None:
        """Pack the weights of a verified model directory; None if the engine is not available for this model here."""
        recipe = Recipe.load(directory / RECIPE).model
        code = load_code() if unsupported_by_native(recipe) is None else None
        weights = read_weights(directory, adapter) if code is not None else None
        if code is None or weights is None:
            return None
        for name in ("model_new", "worker_new"):
            getattr(code, name).restype = ctypes.c_void_p
        vocabulary = read_info(directory).vocabulary_sizes
        if min(vocabulary) <= EOS:
            raise DamagedError(
                f"{directory / INFO} has a vocabulary of {min(vocabulary)}, too small for the {EOS + 1} special "
                "tokens; restore it from a copy",
                code="file_damaged",
            )
        return cls(code, recipe, vocabulary, weights, threads, quantize)

    def new_worker(self) -> int:
        """The address of a new worker: the memory of one translating thread."""
        worker = self.code.worker_new(self.address)
        if not worker:
            raise MemoryError("not enough memory for one more translating thread")
        return int(worker)

    def __del__(self) -> None:
        """Free the memory of the C side."""
        if getattr(self, "address", None):
            self.code.model_free(self.address)


def addresses(names: Sequence[str | None], weights: Weights) -> tuple[Pointers, Pointers]:
    """The address of each tensor, and of its row scales if it is in int8; the first tensors are read as float32."""
    tensors: list[int | None] = []
    scales: list[int | None] = []
    for number, name in enumerate(names):
        matrix = weights.int8.get(name) if name and number >= FLOAT_TENSORS else None
        tensors.append(matrix.values.ctypes.data if matrix else name and weights[name].ctypes.data)  # type: ignore[arg-type]
        scales.append(matrix.scales.ctypes.data if matrix else None)
    kind = ctypes.c_void_p * len(names)
    return kind(*tensors), kind(*scales)


def load_code() -> ctypes.CDLL | None:
    """The library, without tiles if the system denies them: a thread's signal stack may be too small."""
    code = library("translate", structures=STRUCTURES)
    if code is None or code.request_tiles() == 0:
        return code
    return library("translate", structures=STRUCTURES, tiles=False)
