"""The graphs of a Transformer in ONNX: the encoder, and a decoder step with caches, built from the weights.

Weights are stored as `[in, out]`, so that a product is one MatMul. All names of inputs and outputs are documented in
docs/howto/exporting.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from dragoman.config import ModelRecipe
from dragoman.conversion.exports.exported_model import Array
from dragoman.engines.ctranslate2_conversion import position_table
from dragoman.modeldir.weights import EMBEDDING_TABLES

OPSET: Final = 17  # the first with LayerNormalization
IR_VERSION: Final = 8  # of that opset, so that older runtimes load it
SINUSOIDS: Final = 2048  # rows of the table of positions


class GraphBuilder:
    """Collects the nodes and initializers of one ONNX graph."""

    def __init__(self, recipe: ModelRecipe, weights: dict[str, Array]) -> None:
        import onnx

        self.onnx: Any = onnx
        self.recipe, self.weights = recipe, weights
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.bytes = 0

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; return the name of the output."""
        return self.op_n(kind, 1, *inputs, **attributes)[0]

    def op_n(self, kind: str, outputs: int, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        names = [f"{kind.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names

    def constant(self, name: str, value: Any) -> str:
        """Add an initializer, once."""
        if name not in self.constants:
            array = np.ascontiguousarray(value)
            self.bytes += array.nbytes
            self.constants[name] = self.onnx.numpy_helper.from_array(array, name)
        return name

    def integers(self, *values: int) -> str:
        """A constant list of whole numbers."""
        return self.constant("ints_" + "_".join(map(str, values)).replace("-", "m"), np.array(values, np.int64))

    def number(self, value: float) -> str:
        """A constant number."""
        return self.constant(f"number_{value!r}", np.array(value, np.float32))

    def input(self, name: str, shape: Sequence[str | int], *, integer: bool = False) -> str:
        """Declare an input; letters are variable sizes."""
        kind = self.onnx.TensorProto.INT64 if integer else self.onnx.TensorProto.FLOAT
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, list(shape)))
        return name

    def output(self, name: str, value: str, shape: Sequence[str | int]) -> None:
        """Name a value and declare it as output."""
        self.nodes.append(self.onnx.helper.make_node("Identity", [value], [name]))
        kind = self.onnx.TensorProto.FLOAT
        self.outputs.append(self.onnx.helper.make_tensor_value_info(name, kind, list(shape)))

    def finish(self, name: str) -> Any:
        """The checked model."""
        helper = self.onnx.helper
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, [*self.constants.values()])
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="dragoman")

    def linear(self, x: str, name: str) -> str:
        """x W^T + b."""
        y = self.op("MatMul", x, self.constant(f"{name}.weight", self.weights[f"{name}.weight"].T))
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else self.op("Add", y, self.constant(f"{name}.bias", bias))

    def norm(self, x: str, name: str) -> str:
        """Layer normalization."""
        gain, bias = (self.constant(f"{name}.{part}", self.weights[f"{name}.{part}"]) for part in ("weight", "bias"))
        return self.op("LayerNormalization", x, gain, bias, axis=-1, epsilon=self.recipe.norm_epsilon)

    def residual(self, x: str, name: str, sublayer: Any) -> str:
        """A sublayer with its residual connection, post- or pre-norm."""
        if self.recipe.norm_order == "pre":
            return self.op("Add", x, sublayer(self.norm(x, name)))
        return self.norm(self.op("Add", x, sublayer(x)), name)

    def activation(self, x: str) -> str:
        """The activation of the feed-forward networks."""
        match self.recipe.activation:
            case "relu":
                return self.op("Relu", x)
            case "tanh":
                return self.op("Tanh", x)
            case "silu":
                return self.op("Mul", x, self.op("Sigmoid", x))
            case "gelu":
                erf = self.op("Erf", self.op("Mul", x, self.number(math.sqrt(0.5))))
                return self.op("Mul", self.op("Mul", x, self.number(0.5)), self.op("Add", erf, self.number(1.0)))

    def feed_forward(self, x: str, name: str) -> str:
        """The position-wise feed-forward network."""
        return self.linear(self.activation(self.linear(x, f"{name}.inner")), f"{name}.outer")

    def heads(self, x: str, width: int) -> str:
        """`[B, T, H*C]` to `[B, H, T, C]`."""
        split = self.op("Reshape", x, self.integers(0, 0, self.recipe.n_heads, width))
        return self.op("Transpose", split, perm=[0, 2, 1, 3])

    def attend(self, q: str, k: str, v: str, sees: str | None, name: str) -> str:
        """Scaled dot-product attention of all heads, and the output projection; `sees` is True where it may attend."""
        scaled = self.op("Mul", q, self.number(self.recipe.key_size**-0.5))
        scores = self.op("MatMul", scaled, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        if sees is not None:
            scores = self.op("Where", sees, scores, self.number(-math.inf))
        mixed = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        together = self.op("Transpose", mixed, perm=[0, 2, 1, 3])
        width = self.recipe.n_heads * self.recipe.value_size
        return self.linear(self.op("Reshape", together, self.integers(0, 0, width)), name)

    def project_heads(self, x: str, name: str, widths: Sequence[int]) -> list[str]:
        """A projection, split into queries, keys or values by head."""
        together = self.linear(x, name)
        sizes = [self.recipe.n_heads * width for width in widths]
        parts = self.op_n("Split", len(widths), together, self.integers(*sizes), axis=-1)
        return [self.heads(part, width) for part, width in zip(parts, widths, strict=True)]

    def embed(self, ids: str, use: int, positions: str) -> str:
        """Embeddings of ids `[B, T]` with the position codes of `positions [T]`."""
        recipe = self.recipe
        name = f"embeddings.tables.{EMBEDDING_TABLES[recipe.tie][use]}"
        rows = self.op("Gather", self.constant(name, self.weights[name]), ids)
        x = self.op("Mul", rows, self.number(recipe.d_model**0.5))
        if recipe.positions == "none":
            return x
        side = ("source", "target")[use]
        learned = self.weights.get(f"{side}_positions.table")
        codes = position_table(SINUSOIDS, recipe.d_model) if learned is None else learned
        return self.op("Add", x, self.op("Gather", self.constant(f"{side}_positions", codes), positions))

    def source_sees(self, lengths: str, columns: str) -> str:
        """Which source positions are tokens: `[B, 1, 1, S]`."""
        return self.op("Less", columns, self.op("Reshape", lengths, self.integers(-1, 1, 1, 1)))


def encoder_graph(recipe: ModelRecipe, weights: dict[str, Array]) -> GraphBuilder:
    """From source ids to the keys and values of each decoder layer's attention to the source."""
    graph = GraphBuilder(recipe, weights)
    source, lengths = graph.input("source", ["B", "S"], integer=True), graph.input("lengths", ["B"], integer=True)
    size = graph.op("Gather", graph.op("Shape", source), graph.constant("one", np.array(1, np.int64)))
    zero = graph.constant("zero", np.array(0, np.int64))
    columns = graph.op("Range", zero, size, graph.constant("one", np.array(1, np.int64)))
    sees = graph.source_sees(lengths, columns)
    x = graph.embed(source, 0, columns)
    keys, values = recipe.key_size, recipe.value_size
    for i in range(recipe.encoder_layers):
        at = f"encoder.{i}"

        def attention(h: str, at: str = at) -> str:
            q, k, v = graph.project_heads(h, f"{at}.attention.qkv", (keys, keys, values))
            return graph.attend(q, k, v, sees, f"{at}.attention.output")

        x = graph.residual(x, f"{at}.around_attention.norm", attention)
        x = graph.residual(
            x, f"{at}.around_feed_forward.norm", lambda h, at=at: graph.feed_forward(h, f"{at}.feed_forward")
        )
    if recipe.norm_order == "pre":
        x = graph.norm(x, "encoder_norm")
    for i in range(recipe.decoder_layers):
        k, v = graph.project_heads(x, f"decoder.{i}.cross.key_value", (keys, values))
        graph.output(f"source_keys_{i}", k, ["B", recipe.n_heads, "S", keys])
        graph.output(f"source_values_{i}", v, ["B", recipe.n_heads, "S", values])
    return graph


def decoder_graph(recipe: ModelRecipe, weights: dict[str, Array]) -> GraphBuilder:
    """One step: from the last target ids `[B]` and the caches to logits `[B, V]` and the new caches."""
    graph = GraphBuilder(recipe, weights)
    ids, position = graph.input("ids", ["B"], integer=True), graph.input("position", [1], integer=True)
    lengths = graph.input("lengths", ["B"], integer=True)
    keys, values, heads = recipe.key_size, recipe.value_size, recipe.n_heads
    caches = {
        f"{part}_{i}": graph.input(f"{part}_{i}", ["B", heads, size, keys if part.endswith("keys") else values])
        for i in range(recipe.decoder_layers)
        for part, size in (("past_keys", "T"), ("past_values", "T"), ("source_keys", "S"), ("source_values", "S"))
    }
    size = graph.op("Gather", graph.op("Shape", caches["source_keys_0"]), graph.constant("two", np.array(2, np.int64)))
    zero, one = (graph.constant(name, np.array(n, np.int64)) for n, name in enumerate(("zero", "one")))
    sees = graph.source_sees(lengths, graph.op("Range", zero, size, one))
    x = graph.embed(graph.op("Unsqueeze", ids, graph.integers(1)), 1, position)
    for i in range(recipe.decoder_layers):
        at = f"decoder.{i}"

        def attention(h: str, i: int = i, at: str = at) -> str:
            q, k, v = graph.project_heads(h, f"{at}.attention.qkv", (keys, keys, values))
            k = graph.op("Concat", caches[f"past_keys_{i}"], k, axis=2)
            v = graph.op("Concat", caches[f"past_values_{i}"], v, axis=2)
            graph.output(f"keys_{i}", k, ["B", heads, "T+1", keys])
            graph.output(f"values_{i}", v, ["B", heads, "T+1", values])
            return graph.attend(q, k, v, None, f"{at}.attention.output")

        def cross(h: str, i: int = i, at: str = at) -> str:
            (q,) = graph.project_heads(h, f"{at}.cross.query", (keys,))
            return graph.attend(q, caches[f"source_keys_{i}"], caches[f"source_values_{i}"], sees, f"{at}.cross.output")

        x = graph.residual(x, f"{at}.around_attention.norm", attention)
        x = graph.residual(x, f"{at}.around_cross.norm", cross)
        x = graph.residual(
            x, f"{at}.around_feed_forward.norm", lambda h, at=at: graph.feed_forward(h, f"{at}.feed_forward")
        )
    if recipe.norm_order == "pre":
        x = graph.norm(x, "decoder_norm")
    name = f"embeddings.tables.{EMBEDDING_TABLES[recipe.tie][2]}"
    table = graph.constant(name, weights[name])
    bias = [graph.constant("output_bias", weights["embeddings.output_bias"])] if recipe.output_bias else []
    logits = graph.op("Gemm", graph.op("Squeeze", x, graph.integers(1)), table, *bias, transB=1)
    graph.output("logits", logits, ["B", len(weights[name])])
    return graph
