"""A model of the native engine: its weights, packed by C."""

from __future__ import annotations

import ctypes
from pathlib import Path

from dragoman.config import ModelRecipe, Recipe
from dragoman.engines import native_layout
from dragoman.engines.native_layout import STRUCTURES, ModelConfig, unsupported_by_native
from dragoman.errors import DamagedError
from dragoman.modeldir.info import read_info
from dragoman.modeldir.layout import INFO, RECIPE
from dragoman.modeldir.weights import EMBEDDING_TABLES, Weights, check_tensors, read_weights, tensor_layout
from dragoman.native import library
from dragoman.text.special_tokens import EOS


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
        shapes = {name: w.shape for name, w in weights.items()}
        check_tensors(weights.path, shapes, (tensor for tensor in tensor_layout(recipe, vocabulary) if tensor))
        addresses = [tensor and weights[tensor[0]].ctypes.data for tensor in tensor_layout(recipe, vocabulary)]
        pointers = (ctypes.c_void_p * len(addresses))(*addresses)
        shape = ModelConfig(
            recipe.d_model, recipe.n_heads, recipe.key_size, recipe.value_size, recipe.d_ff,
            recipe.encoder_layers, recipe.decoder_layers, *vocabulary,
            native_layout.ACTIVATION_CODES[recipe.activation], native_layout.POSITION_CODES[recipe.positions],
            recipe.max_positions, recipe.norm_order == "pre", quantize, threads, recipe.max_distance,
            recipe.norm_epsilon,
        )  # fmt: skip
        self.address = ctypes.c_void_p(code.model_new(ctypes.byref(shape), pointers))
        if not self.address:
            raise MemoryError("not enough memory for the model's packed weights")
        weights.keep_only(
            [f"embeddings.tables.{name}" for name in EMBEDDING_TABLES[recipe.tie][:2]]
            + [f"{side}_positions.table" for side in ("source", "target")]
        )

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


def load_code() -> ctypes.CDLL | None:
    """The library, without tiles if the system denies them: a thread's signal stack may be too small."""
    code = library("translate", structures=STRUCTURES)
    if code is None or code.request_tiles() == 0:
        return code
    return library("translate", structures=STRUCTURES, tiles=False)
