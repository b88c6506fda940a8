"""A search with nothing that moves: every tensor of fixed shape at a fixed address, so that a step can be recorded.

Caches are written once, at [position, row], and never reordered. What moves with a beam is its lineage: for each
position, in which of its sentence's slots the ancestor stood that was there. Positions are held for each sentence, so
that a sentence that is done stands still while others go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.models.transformer import DecoderLayer, EncoderLayer, Transformer
from dragoman.nn import LayerNorm, LearnedPositions, ScaledDotProduct, SinusoidalPositions, sinusoid
from dragoman.text.special_tokens import BOS

ALIGNED = 32  # numbers of 4 bytes
WIDE = 64  # the projection is filled up to a multiple of this: odd vocabularies would get slow matrix products


@dataclass(frozen=True)
class Affine:
    """x W^T + b."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Normal:
    """Layer norm."""

    weight: Tensor
    bias: Tensor
    eps: float


@dataclass(frozen=True)
class EncoderWeights:
    """The matrices of an encoder layer, in the order in which they are used."""

    qkv: Affine
    out: Affine
    inner: Affine
    outer: Affine


@dataclass(frozen=True)
class DecoderWeights:
    """The matrices of a decoder layer, in the order in which they are used."""

    qkv: Affine
    out: Affine
    query: Affine
    cross_out: Affine
    inner: Affine
    outer: Affine


class Weights:
    """A Transformer as the steps read it; no weight is copied but the source's keys' and values', now one matrix.

    `bias` is that of the projection in a higher precision than the model's, if it has one: it is added to sums.
    """

    def __init__(self, model: Transformer, bias: Tensor | None = None) -> None:
        recipe = model.recipe
        self.heads, self.d_k, self.d_v = recipe.n_heads, recipe.key_size, recipe.value_size
        self.d_model, self.pre_norm = recipe.d_model, recipe.norm_order == "pre"
        encoder = [layer for layer in model.encoder if isinstance(layer, EncoderLayer)]
        decoder = [layer for layer in model.decoder if isinstance(layer, DecoderLayer)]
        self.encoder = tuple(
            EncoderWeights(*map(_affine, (x.attention.qkv, x.attention.output, *_forward(x)))) for x in encoder
        )
        self.layers = tuple(
            DecoderWeights(
                *map(_affine, (x.attention.qkv, x.attention.output, x.cross.query, x.cross.output, *_forward(x)))
            )
            for x in decoder
        )
        around = [r for x in encoder for r in (x.around_attention, x.around_feed_forward)]
        self.encoder_norms = self._entries(around, model.encoder_norm)
        around = [r for x in decoder for r in (x.around_attention, x.around_cross, x.around_feed_forward)]
        self.norms = self._entries(around, model.decoder_norm)
        self.activation: Callable[[Tensor], Tensor] = decoder[0].feed_forward.activation
        self.source_table, self.table = (model.embeddings._table(use).detach() for use in (0, 1))
        self.scale = model.embeddings.scale
        projection = model.projection().detach()
        self.vocabulary = len(projection)
        bias, filling = bias if bias is not None else model.projection_bias(), -len(projection) % WIDE
        self.projection = Affine(
            F.pad(projection, (0, 0, 0, filling)).contiguous(),
            None if bias is None else F.pad(bias.detach().float(), (0, filling)),
        )
        self.remember = _stacked([layer.cross.key_value for layer in decoder])
        self.source_code, self.code = model.source_positions, model.target_positions

    def _entries(self, around: list[Any], last: object) -> list[Normal | None]:
        """The norm of what enters each sub-layer, and of what comes out of the last one.

        Post-norm takes the norm of the sub-layer before.
        """
        norms = [_normal(residual.norm) for residual in around]
        return [*norms, _normal(last)] if self.pre_norm else [None, *norms]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.table.device

    @property
    def dtype(self) -> torch.dtype:
        """What they are made of."""
        return self.table.dtype

    def positions(self, n: int, source: bool = False) -> Tensor:
        """The codes of the first n positions, `[n, D]` in float32."""
        code = self.source_code if source else self.code
        if isinstance(code, SinusoidalPositions):
            return sinusoid(torch.arange(n, device=self.device), self.d_model)
        if isinstance(code, LearnedPositions):
            known = code.table.detach()[:n].float()
            return F.pad(known, (0, 0, 0, n - len(known)))
        return torch.zeros(n, self.d_model, device=self.device)


def fits(model: object) -> bool:
    """Whether these steps compute a model: a Transformer of dot products and layer norms that reads no trees."""
    if not isinstance(model, Transformer):
        return False
    uses = (layer.attention for layer in (*model.encoder, *model.decoder)), (layer.cross for layer in model.decoder)
    functions = {type(use.function) for of_layers in uses for use in of_layers}  # type: ignore[union-attr]
    plain = model.recipe.norm == "layer" and model.recipe.pattern == "full" and not model.recipe.reads_trees
    return functions == {ScaledDotProduct} and plain


def _forward(layer: EncoderLayer | DecoderLayer) -> tuple[nn.Linear, nn.Linear]:
    return layer.feed_forward.inner, layer.feed_forward.outer


def _affine(linear: nn.Linear) -> Affine:
    return Affine(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())


def _normal(norm: object) -> Normal:
    assert isinstance(norm, LayerNorm)
    return Normal(norm.weight.detach(), norm.bias.detach(), norm.eps)


def _stacked(linears: list[nn.Linear]) -> Affine:
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    return Affine(weight, torch.cat(biases) if biases else None)


@dataclass(frozen=True)
class Shape:
    """What a recorded step is recorded for: sentences, beams, and room for source tokens and for steps."""

    sentences: int
    beam: int
    source: int
    steps: int

    @property
    def rows(self) -> int:
        """Of the batch."""
        return self.sentences * self.beam

    def bytes(self, weights: Weights) -> int:
        """What a state of this shape takes, nearly."""
        width = weights.heads * (weights.d_k + weights.d_v) * len(weights.layers) * weights.table.element_size()
        logits = self.rows * (8 * len(weights.projection.weight) + 64 * weights.d_model)
        return width * (self.steps * self.rows + self.source * self.sentences) + logits


class Numbers:
    """The small tensors of a search, integers in one and floats in one, so that a search begins with two copies.

    Each stands at a round address: kernels are compiled for how round addresses are.
    """

    def __init__(self, shape: Shape, device: torch.device, pinned: bool = False) -> None:
        self.shape = shape
        sentences, rows = shape.sentences, shape.rows
        self.integers, parts = _aligned([*[sentences] * 4, rows, rows, 1, 1], torch.int32, device, pinned)
        self.done, self.position, self.limit, self.source_length, finished, length, self.least, self.wanted = parts
        self.finished, self.length = finished.view(sentences, -1), length.view(sentences, -1)
        self.floats, (score, self.normalizer) = _aligned([rows, shape.steps + 2], torch.float32, device, pinned)
        self.score = score.view(sentences, -1)  # log-probabilities; the rest tells how to compare and when to end
        self.normalizer.fill_(1.0)


def _aligned(sizes: list[int], dtype: torch.dtype, device: torch.device, pinned: bool) -> tuple[Tensor, list[Tensor]]:
    offsets = [0, *accumulate(-(-size // ALIGNED) * ALIGNED for size in sizes)]
    whole = torch.zeros(offsets[-1], dtype=dtype, device=device, pin_memory=pinned)
    return whole, [whole[start : start + size] for start, size in zip(offsets, sizes, strict=False)]


class State(Numbers):
    """All tensors of a search."""

    def __init__(self, weights: Weights, shape: Shape) -> None:
        super().__init__(shape, weights.device)
        rows, steps, sentences = shape.rows, shape.steps, shape.sentences
        layers, keys, values = len(weights.layers), weights.heads * weights.d_k, weights.heads * weights.d_v
        kind: dict[str, Any] = {"dtype": weights.dtype, "device": weights.device}
        self.keys = torch.zeros(layers, steps, rows, keys, **kind)
        self.values = torch.zeros(layers, steps, rows, values, **kind)
        self.source = torch.zeros(sentences, shape.source, layers, keys + values, **kind)
        kind["dtype"] = torch.int32
        self.lineage = torch.zeros(sentences, shape.beam, steps, **kind)
        self.history = torch.full((steps + 1, rows), BOS, **kind)  # what was put in at each position
        self.positions = weights.positions(steps)

    def take(self, other: State, sentences: Tensor) -> None:
        """Go on with some of another state's sentences, which has as many beams and as much room."""
        n, beam = len(sentences), self.shape.beam
        rows = (sentences[:, None] * beam + torch.arange(beam, device=sentences.device)).flatten()
        self.done.fill_(1)
        self.keys[:, :, : n * beam] = other.keys.index_select(2, rows)
        self.values[:, :, : n * beam] = other.values.index_select(2, rows)
        self.history[:, : n * beam] = other.history.index_select(1, rows)
        for name in ("source", "lineage", "done", "position", "limit", "source_length", "finished", "length", "score"):
            getattr(self, name)[:n] = getattr(other, name).index_select(0, sentences)
        for name in ("least", "wanted", "normalizer"):
            getattr(self, name).copy_(getattr(other, name))


class Kernels(Protocol):
    """What a step is made of; written out in PyTorch, and again for Triton."""

    def embed(self, w: Weights, s: State) -> Tensor:
        """The newest tokens of all rows, `[R, D]`."""

    def enter(
        self, w: Weights, x: Tensor, y: Tensor | None, norm: Normal | None, into: Affine, *, active: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Add what the last sub-layer made to the stream, normalize, and multiply; the stream, and the product."""

    def linear(self, x: Tensor, by: Affine) -> Tensor:
        """x W^T + b."""

    def logits(self, w: Weights, x: Tensor, y: Tensor | None, norm: Normal | None) -> Tensor:
        """`[R, V or wider]` in float32, from the stream and what the last sub-layer made."""

    def attend_all(self, w: Weights, qkv: Tensor, lengths: Tensor) -> Tensor:
        """From every token of a source to all of them, `[B * S, H * V]`."""

    def attend_own(self, w: Weights, s: State, layer: int, qkv: Tensor) -> Tensor:
        """From each row to itself and to its ancestors; its own keys and values are kept."""

    def attend_source(self, w: Weights, s: State, layer: int, q: Tensor) -> Tensor:
        """From each row to its sentence's source."""

    def select(self, w: Weights, s: State, logits: Tensor) -> None:
        """Extend the open hypotheses by every token and keep the likeliest, as `Search` says; move on by a position."""


def read(w: Weights, ids: Tensor, lengths: Tensor, codes: Tensor, k: Kernels) -> Tensor:
    """Every decoder layer's keys and values of sources `[B, S]`, which have `lengths [B]`: `[B * S, C]`."""
    norms = iter(w.encoder_norms)
    x, y = (F.embedding(ids, w.source_table).float() * w.scale + codes).to(w.dtype).flatten(0, 1), None
    for layer in w.encoder:
        x, qkv = k.enter(w, x, y, next(norms), layer.qkv)
        y = k.linear(k.attend_all(w, qkv, lengths), layer.out)
        x, h = k.enter(w, x, y, next(norms), layer.inner, active=True)
        y = k.linear(h, layer.outer)
    return k.enter(w, x, y, next(norms), w.remember)[1]


def step(w: Weights, s: State, k: Kernels) -> None:
    """One token more for every sentence that is not done."""
    norms = iter(w.norms)
    x, y = k.embed(w, s), None
    for i, layer in enumerate(w.layers):
        x, qkv = k.enter(w, x, y, next(norms), layer.qkv)
        y = k.linear(k.attend_own(w, s, i, qkv), layer.out)
        x, q = k.enter(w, x, y, next(norms), layer.query)
        y = k.linear(k.attend_source(w, s, i, q), layer.cross_out)
        x, h = k.enter(w, x, y, next(norms), layer.inner, active=True)
        y = k.linear(h, layer.outer)
    k.select(w, s, k.logits(w, x, y, next(norms)))
