"""What the C engine is told of a model and of a job, and which models it knows."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Final

from dragoman.config import ModelRecipe

ACTIVATIONS: Final = {"relu": 2, "gelu": 3, "silu": 4, "tanh": 5}
POSITIONS: Final = {"none": 0, "sinusoidal": 1, "learned": 2}
FREE: Final = (
    *("d_model", "n_heads", "d_k", "d_v", "d_ff", "encoder_layers", "decoder_layers", "max_positions"),
    *("dropout", "attention_dropout", "feed_forward_dropout", "attention_bias", "norm_order", "tie"),
)
Stored = tuple[str, tuple[int, ...]]  # a tensor's name and shape


class Shape(ctypes.Structure):
    """`Shape` of native/model.h."""

    _fields_ = tuple(
        (name, ctypes.c_int32)
        for name in (
            *("d_model", "heads", "d_k", "d_v", "d_ff", "encoder_layers", "decoder_layers"),
            *("source_vocabulary", "target_vocabulary", "activation", "positions", "max_positions"),
            *("pre_norm", "quantised", "threads"),
        )
    )


class Job(ctypes.Structure):
    """`Job` of native/search.h."""

    _fields_ = (
        *((n, ctypes.c_int32) for n in ("sentences", "beam", "n_best", "min_length", "no_repeat", "longest", "team")),
        *((n, ctypes.c_void_p) for n in ("source", "source_lengths", "limits", "prefix", "prefix_lengths")),
        *((n, ctypes.c_void_p) for n in ("normalisers", "pieces", "lengths", "scores", "log_probabilities")),
    )


def supported(recipe: ModelRecipe) -> bool:
    """Whether the engine knows every part of such a model; a part that is not named here must be the paper's."""
    for field in fields(recipe):
        value = getattr(recipe, field.name)
        if field.name in FREE:
            continue
        if (field.name == "activation" and value in ACTIVATIONS) or (field.name == "positions" and value in POSITIONS):
            continue
        if field.default is MISSING or value != field.default:
            return False
    return True


def tensors_of(recipe: ModelRecipe, vocabulary: tuple[int, int]) -> Iterator[Stored | None]:
    """Name and shape of the weights in the order in which native/model.h takes them; None for those a model lacks."""
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
    yield from (output, None)  # the projection has no bias

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
