"""Convert the layers of an encoder-decoder Transformer from another toolkit's names to ours.

All toolkits have the same matrices under different names. If the features of the residual stream are ordered
differently, all weights that read or write the stream are reordered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from dragoman.config import ModelRecipe
from dragoman.conversion.source_checkpoint import SourceCheckpoint, UnsupportedSettingError
from dragoman.conversion.vocabulary import VocabularyMapping
from dragoman.modeldir.weights import EMBEDDING_TABLES

ACTIVATION_NAMES: Final = {"swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu", "tanh": "tanh"}
MAX_WIDTH_RATIO: Final = 16  # between the feed-forward networks of encoder and decoder


@dataclass(frozen=True)
class LayerNames:
    """The names of the modules of a layer, without `.weight` and `.bias`."""

    qkv: tuple[str, str, str]
    output: str
    attention_norm: str
    inner: str
    outer: str
    feed_forward_norm: str
    cross_query: str = ""
    cross_key_value: tuple[str, str] = ("", "")
    cross_output: str = ""
    cross_norm: str = ""
    ssru: tuple[str, str] | None = None  # value and gate of an SSRU, instead of `qkv` and `output`


class FeatureOrder:
    """The order of the d_model features of the residual stream: ours[i] = source[order[i]]; None if unchanged."""

    def __init__(self, order: Sequence[int] | None = None) -> None:
        self.order = None if order is None else torch.tensor(order)

    def last(self, tensor: Tensor) -> Tensor:
        """Reorder the last dimension, for weights that read the stream."""
        return tensor if self.order is None else tensor[..., self.order]

    def first(self, tensor: Tensor) -> Tensor:
        """Reorder the first dimension, for weights that write to the stream."""
        return tensor if self.order is None else tensor[self.order]


def interleave_sines(d_model: int) -> list[int]:
    """Return the feature order for toolkits whose sinusoids have all sines first; ours alternate with cosines."""
    return [part * (d_model // 2) + i for i in range(d_model // 2) for part in (0, 1)]


class LayerConverter:
    """Converts layers one by one and collects their weights."""

    def __init__(self, checkpoint: SourceCheckpoint, recipe: ModelRecipe, stream: FeatureOrder) -> None:
        self.checkpoint, self.recipe, self.stream = checkpoint, recipe, stream
        self.weights: dict[str, Tensor] = {}

    def take(self, ours: str, there: str, names: LayerNames, d_ff: int) -> None:
        """Convert the layer `there` to `ours`, such as "encoder.0", with `d_ff` inner features."""
        d, keys, values = self.recipe.d_model, self.recipe.key_size, self.recipe.value_size
        heads = self.recipe.n_heads
        attended = (heads * keys, heads * keys, heads * values)
        if names.ssru is not None:
            self.convert_ssru(f"{ours}.attention", [f"{there}.{name}" for name in names.ssru])
        else:
            self.convert_inputs(f"{ours}.attention.qkv", [f"{there}.{name}" for name in names.qkv], attended)
            self.convert_output(f"{ours}.attention.output", f"{there}.{names.output}", attended[2])
        self.norm(f"{ours}.around_attention.norm", f"{there}.{names.attention_norm}")
        if names.cross_query:
            self.convert_inputs(f"{ours}.cross.query", [f"{there}.{names.cross_query}"], attended[:1])
            self.convert_inputs(
                f"{ours}.cross.key_value", [f"{there}.{name}" for name in names.cross_key_value], attended[1:]
            )
            self.convert_output(f"{ours}.cross.output", f"{there}.{names.cross_output}", attended[2])
            self.norm(f"{ours}.around_cross.norm", f"{there}.{names.cross_norm}")
        self.convert_inputs(f"{ours}.feed_forward.inner", [f"{there}.{names.inner}"], (d_ff,), bias=True)
        self.convert_output(f"{ours}.feed_forward.outer", f"{there}.{names.outer}", d_ff, bias=True)
        self.norm(f"{ours}.around_feed_forward.norm", f"{there}.{names.feed_forward_norm}")
        if d_ff < self.recipe.d_ff:
            self.pad_features(f"{ours}.feed_forward", self.recipe.d_ff - d_ff, d)

    def take_layers(self, there: str, encoder: LayerNames, decoder: LayerNames, d_ff: Sequence[int]) -> None:
        """Convert all layers, in `there` + "encoder.layers" and the like, and with pre-norm the final norms."""
        if max(d_ff) > MAX_WIDTH_RATIO * min(d_ff):
            raise UnsupportedSettingError(
                f"{self.checkpoint.where} has feed-forward networks of {d_ff[0]:,} and {d_ff[1]:,} features; the "
                f"smaller is padded with zeros, so they may differ by a factor of at most {MAX_WIDTH_RATIO}"
            )
        counts = self.recipe.encoder_layers, self.recipe.decoder_layers
        for side, names, count, size in zip(("encoder", "decoder"), (encoder, decoder), counts, d_ff, strict=True):
            for i in range(count):
                self.take(f"{side}.{i}", f"{there}{side}.layers.{i}", names, size)
            if self.recipe.norm_order == "pre":
                self.norm(f"{side}_norm", f"{there}{side}.layer_norm")

    def convert_inputs(self, ours: str, names: Sequence[str], outputs: Sequence[int], bias: bool | None = None) -> None:
        """Concatenate the matrices that read the stream."""
        d, both = self.recipe.d_model, [*zip(names, outputs, strict=True)]
        self.weights[f"{ours}.weight"] = torch.cat([
            self.stream.last(self.checkpoint.take(f"{name}.weight", (n, d))) for name, n in both
        ])  # fmt: skip
        if self.recipe.attention_bias if bias is None else bias:
            self.weights[f"{ours}.bias"] = torch.cat([self.bias(name, n) for name, n in both])

    def convert_output(self, ours: str, name: str, inputs: int, bias: bool | None = None) -> None:
        """Convert a matrix whose output is added to the stream."""
        d = self.recipe.d_model
        self.weights[f"{ours}.weight"] = self.stream.first(self.checkpoint.take(f"{name}.weight", (d, inputs)))
        if self.recipe.attention_bias if bias is None else bias:
            self.weights[f"{ours}.bias"] = self.stream.first(self.bias(name, d))

    def convert_ssru(self, ours: str, names: Sequence[str]) -> None:
        """Convert the two matrices of an SSRU, which read the stream and write to it."""
        d = self.recipe.d_model
        for part, name in zip(("value", "gate"), names, strict=True):
            matrix = self.checkpoint.take(f"{name}.weight", (d, d))
            self.weights[f"{ours}.{part}.weight"] = self.stream.first(self.stream.last(matrix))
        self.weights[f"{ours}.gate.bias"] = self.stream.first(self.bias(names[1], d))

    def bias(self, name: str, size: int) -> Tensor:
        """Return a bias, or zeros for a model without biases."""
        bias_name = f"{name}.bias"
        return self.checkpoint.take(bias_name, (size,)) if bias_name in self.checkpoint else torch.zeros(size)

    def norm(self, ours: str, name: str) -> None:
        """Convert a layer norm on the stream."""
        for part in ("weight", "bias"):
            taken = self.checkpoint.take(f"{name}.{part}", (self.recipe.d_model,))
            self.weights[f"{ours}.{part}"] = self.stream.first(taken)

    def pad_features(self, ours: str, more: int, d: int) -> None:
        """Add inner features that are always zero, as every activation maps zero to zero."""
        inner, bias, outer = f"{ours}.inner.weight", f"{ours}.inner.bias", f"{ours}.outer.weight"
        self.weights[inner] = torch.cat([self.weights[inner], torch.zeros(more, d)])
        self.weights[bias] = torch.cat([self.weights[bias], torch.zeros(more)])
        self.weights[outer] = torch.cat([self.weights[outer], torch.zeros(d, more)], 1)


@dataclass(frozen=True)
class EmbeddingTables:
    """The embeddings of both sides and the output projection; `scaled`: lookups are multiplied by sqrt(d_model)."""

    source: Tensor
    target: Tensor
    output: Tensor
    scaled: bool = True
    bias: Tensor | None = None

    def convert(
        self, source: VocabularyMapping, target: VocabularyMapping, stream: FeatureOrder
    ) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Return our weights and the recipe settings: which tables are tied, and whether there is an output bias."""
        shrink = 1.0 if self.scaled else self.source.shape[1] ** -0.5
        tables = [
            stream.last(order.of_rows(table)) * factor
            for order, table, factor in (
                (source, self.source, shrink), (target, self.target, shrink), (target, self.output, 1.0)
            )
        ]  # fmt: skip
        alike = [torch.equal(tables[1], tables[i]) if tables[1].shape == tables[i].shape else False for i in (0, 2)]
        tie = "all" if all(alike) else "target" if alike[1] else "none"
        named = zip(EMBEDDING_TABLES[tie], tables, strict=True)
        weights = {f"embeddings.tables.{name}": table for name, table in named}
        bias = target.bias(self.bias)
        if bias is not None:
            weights["embeddings.output_bias"] = bias
        return weights, {"tie": tie, "output_bias": bias is not None}
