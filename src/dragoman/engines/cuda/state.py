"""Search state with fixed shapes at fixed addresses, so that a step can be recorded as a CUDA graph.

Caches are written once, at [position, row], and never reordered. Instead each beam has a lineage: for each position,
the slot of its ancestor within the sentence. Each sentence has its own position, so a finished one stays where it is
while others continue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.arrays import Int64Array
from dragoman.engines.cuda.rules import (
    NO_RULES,
    BatchRules,
    FixedAllocator,
    FixedAvoided,
    Follow,
    RuleShape,
    follow_tokens,
)
from dragoman.models.transformer import DecoderLayer, EncoderLayer, Transformer
from dragoman.nn import LayerNorm, LearnedPositions, MultiHeadSelfAttention, SinusoidalPositions, sinusoid
from dragoman.search.types import RecordedHead
from dragoman.text.special_tokens import BOS, PAD

if TYPE_CHECKING:
    from dragoman.engines.cuda.kernels_torch import TorchKernels

STATE_ALIGNMENT = 32  # numbers of 4 bytes
PROJECTION_MULTIPLE = 64  # the projection is padded to a multiple: odd vocabularies get slow matrix products


@dataclass(frozen=True)
class Affine:
    """x W^T + b."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class NormWeights:
    """Layer norm."""

    weight: Tensor
    bias: Tensor
    eps: float


@dataclass(frozen=True)
class EncoderWeights:
    """The matrices of an encoder layer."""

    qkv: Affine
    out: Affine
    inner: Affine
    outer: Affine


@dataclass(frozen=True)
class DecoderWeights(EncoderWeights):
    """The matrices of a decoder layer."""

    query: Affine
    cross_out: Affine


class ModelWeights:
    """The weights of a Transformer; only cross-attention keys and values are copied, stacked into one matrix.

    `bias` is the output projection's bias, if it has one, in higher precision than the model.
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
        parts = (
            (own.qkv, own.output, *_forward(x), x.cross.query, x.cross.output)
            for x in decoder
            if isinstance(own := x.attention, MultiHeadSelfAttention)  # CUDA supports no other kind
        )
        self.layers = tuple(DecoderWeights(*map(_affine, linears)) for linears in parts)
        around = [r for x in encoder for r in (x.around_attention, x.around_feed_forward)]
        self.encoder_norms = self._entries(around, model.encoder_norm)
        around = [r for x in decoder for r in (x.around_attention, x.around_cross, x.around_feed_forward)]
        self.norms = self._entries(around, model.decoder_norm)
        self.activation: Callable[[Tensor], Tensor] = decoder[0].feed_forward.activation
        self.source_table, self.table = (model.embeddings._table(use).detach() for use in (0, 1))
        self.scale = model.embeddings.scale
        projection = model.projection().detach()
        self.vocabulary = len(projection)
        bias, filling = bias if bias is not None else model.projection_bias(), -len(projection) % PROJECTION_MULTIPLE
        self.projection = Affine(
            F.pad(projection, (0, 0, 0, filling)).contiguous(),
            None if bias is None else F.pad(bias.detach().float(), (0, filling)),
        )
        self.cross_key_value = _stacked([layer.cross.key_value for layer in decoder])
        self.source_code, self.code = model.source_positions, model.target_positions

    def _entries(self, around: list[Any], last: object) -> list[NormWeights | None]:
        """The norm before each sublayer and after the last; with post-norm, the norm of the previous sublayer."""
        norms = [_normal(residual.norm) for residual in around]
        return [*norms, _normal(last)] if self.pre_norm else [None, *norms]

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.table.device

    @property
    def dtype(self) -> torch.dtype:
        """Their data type."""
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


def _forward(layer: EncoderLayer | DecoderLayer) -> tuple[nn.Linear, nn.Linear]:
    return layer.feed_forward.inner, layer.feed_forward.outer


def _affine(linear: nn.Linear) -> Affine:
    return Affine(linear.weight.detach(), None if linear.bias is None else linear.bias.detach())


def _normal(norm: object) -> NormWeights:
    assert isinstance(norm, LayerNorm)
    return NormWeights(norm.weight.detach(), norm.bias.detach(), norm.eps)


def _stacked(linears: list[nn.Linear]) -> Affine:
    weight = torch.cat([linear.weight.detach() for linear in linears])
    biases = [linear.bias.detach() for linear in linears if linear.bias is not None]
    return Affine(weight, torch.cat(biases) if biases else None)


@dataclass(frozen=True)
class GraphShape:
    """The sizes of a recorded step (sentences, beams, maximum source tokens and steps), and what it does besides."""

    sentences: int
    beam: int
    source: int
    steps: int
    rules: RuleShape = NO_RULES
    recorded: tuple[RecordedHead, ...] = ()

    @property
    def rows(self) -> int:
        """Rows of the batch."""
        return self.sentences * self.beam

    def bytes(self, weights: ModelWeights) -> int:
        """Approximate memory of a state of this shape."""
        width = weights.heads * (weights.d_k + weights.d_v) * len(weights.layers) * weights.table.element_size()
        logits = self.rows * (8 * len(weights.projection.weight) + 64 * weights.d_model)
        maps = 4 * len(self.recorded) * (self.steps + 1) * self.rows * self.source
        return width * (self.steps * self.rows + self.source * self.sentences) + logits + maps + self.rules.bytes()


class SearchTensors:
    """The small tensors of a search, in one integer and one float tensor, so a search starts with two copies.

    Each is aligned: kernels are compiled for the alignment of their addresses.
    """

    def __init__(self, shape: GraphShape, device: torch.device, pinned: bool = False) -> None:
        self.shape = shape
        sentences, rows = shape.sentences, shape.rows
        self.integers, parts = _aligned([*[sentences] * 4, rows, rows, 1, 1], torch.int32, device, pinned)
        self.done, self.position, self.limit, self.source_length, finished, length, self.min_length, self.n_best = parts
        self.finished, self.length = finished.view(sentences, -1), length.view(sentences, -1)
        self.floats, (score, self.normalizer) = _aligned([rows, shape.steps + 2], torch.float32, device, pinned)
        self.score = score.view(sentences, -1)  # log-probabilities; the normalizers rank them and decide when to stop
        self.normalizer.fill_(1.0)


def _aligned(sizes: list[int], dtype: torch.dtype, device: torch.device, pinned: bool) -> tuple[Tensor, list[Tensor]]:
    offsets = [0, *accumulate(-(-size // STATE_ALIGNMENT) * STATE_ALIGNMENT for size in sizes)]
    whole = torch.zeros(offsets[-1], dtype=dtype, device=device, pin_memory=pinned)
    return whole, [whole[start : start + size] for start, size in zip(offsets, sizes, strict=False)]


class SearchState(SearchTensors):
    """All tensors of a search; `follow` advances the automata of lexical constraints."""

    def __init__(self, weights: ModelWeights, shape: GraphShape, follow: Follow = follow_tokens) -> None:
        super().__init__(shape, weights.device)
        rows, steps, sentences = shape.rows, shape.steps, shape.sentences
        layers, keys, values = len(weights.layers), weights.heads * weights.d_k, weights.heads * weights.d_v
        kind: dict[str, Any] = {"dtype": weights.dtype, "device": weights.device}
        self.keys = torch.zeros(layers, steps, rows, keys, **kind)
        self.values = torch.zeros(layers, steps, rows, values, **kind)
        self.source = torch.zeros(sentences, shape.source, layers, keys + values, **kind)
        kind["dtype"] = torch.int32
        self.lineage = torch.zeros(sentences, shape.beam, steps, **kind)
        self.history = torch.full((steps + 1, rows), BOS, **kind)  # the input at each position
        self.positions = weights.positions(steps)
        self.source_length.fill_(1)  # steps are recorded before there is a source
        rules, recorded = shape.rules, len(shape.recorded)
        self.prefixes = torch.full((sentences, steps), PAD, **kind) if rules.prefixes else None
        place = sentences, rows, weights.device, follow
        self.avoided = None if rules.avoided is None else FixedAvoided(rules.avoided, *place)
        self.required = None if rules.required is None else FixedAllocator(rules.required, *place)
        # The attention of each row at each position; a sentence that is done writes behind the last one.
        self.maps = torch.zeros(recorded, steps + 1, rows, shape.source if recorded else 0, device=weights.device)

    def begin_rules(self, rules: BatchRules) -> None:
        """Load the rules of a batch."""
        if self.prefixes is not None:
            forced = torch.full(self.prefixes.shape, PAD, dtype=torch.int32)
            for i, prefix in enumerate(rules.prefixes or ()):
                forced[i, : len(prefix)] = torch.tensor(prefix, dtype=torch.int32)
            self.prefixes.copy_(forced)
        if self.avoided is not None and rules.avoided is not None:
            self.avoided.load(rules.avoided)
        if self.required is not None and rules.required is not None:
            self.required.fixed.load(rules.required)

    def take(self, other: SearchState, which: Int64Array) -> None:
        """Take the large tensors of some sentences from a state that has the same beams, source tokens and steps."""
        n, beam, device = len(which), self.shape.beam, self.done.device
        sentences = torch.from_numpy(which).to(device)
        rows = torch.from_numpy((which[:, None] * beam + np.arange(beam)).ravel()).to(device)
        self.keys[:, :, : n * beam] = other.keys.index_select(2, rows)
        self.values[:, :, : n * beam] = other.values.index_select(2, rows)
        self.history[:, : n * beam] = other.history.index_select(1, rows)
        self.source[:n] = other.source.index_select(0, sentences)
        if beam > 1:
            self.lineage[:n] = other.lineage.index_select(0, sentences)
        if self.shape.recorded:
            self.maps[:, :, : n * beam] = other.maps.index_select(2, rows)
        if self.prefixes is not None and other.prefixes is not None:
            self.prefixes[:n] = other.prefixes.index_select(0, sentences)
        if self.avoided is not None and other.avoided is not None:
            self.avoided.take(other.avoided, sentences, rows)
        if self.required is not None and other.required is not None:
            self.required.fixed.take(other.required.fixed, sentences, rows)

    def forced(self) -> Tensor | None:
        """The token that each row must write next `[R]`, PAD where it is free; None without prefixes."""
        if self.prefixes is None:
            return None
        forced = self.prefixes.gather(1, self.position[:, None].long()).long()
        return forced.expand(-1, self.shape.beam).flatten()

    def advance_rules(self) -> None:
        """Follow the tokens that were just written; sentences that are done need not."""
        if self.avoided is None and self.required is None:
            return
        beam, last = self.shape.beam, (self.position[:, None, None].long() - 1).clamp(min=0)
        parents = self.lineage.gather(2, last.expand(-1, beam, 1))[:, :, 0]
        rows = (torch.arange(len(parents), device=parents.device)[:, None] * beam + parents).flatten()
        tokens = self.history.gather(0, self.position.repeat_interleave(beam).long()[None])[0].long()
        if self.avoided is not None:
            self.avoided.advance(rows, tokens)
        if self.required is not None:
            self.required.advance(rows, tokens)


def encode(w: ModelWeights, ids: Tensor, lengths: Tensor, codes: Tensor, k: TorchKernels) -> Tensor:
    """Every decoder layer's keys and values of sources `[B, S]`, which have `lengths [B]`: `[B * S, C]`."""
    norms = iter(w.encoder_norms)
    x, y = (F.embedding(ids, w.source_table).float() * w.scale + codes).to(w.dtype).flatten(0, 1), None
    for layer in w.encoder:
        x, qkv = k.enter(w, x, y, next(norms), layer.qkv)
        y = k.linear(k.attend_all(w, qkv, lengths), layer.out)
        x, h = k.enter(w, x, y, next(norms), layer.inner, active=True)
        y = k.linear(h, layer.outer)
    return k.enter(w, x, y, next(norms), w.cross_key_value)[1]


def decode_step(w: ModelWeights, s: SearchState, k: TorchKernels) -> None:
    """One more token for every sentence that is not done."""
    norms = iter(w.norms)
    x, y = k.embed(w, s), None
    for i, layer in enumerate(w.layers):
        x, qkv = k.enter(w, x, y, next(norms), layer.qkv)
        y = k.linear(k.attend_own(w, s, i, qkv), layer.out)
        x, q = k.enter(w, x, y, next(norms), layer.query)
        k.record(w, s, i, q)
        y = k.linear(k.attend_source(w, s, i, q), layer.cross_out)
        x, h = k.enter(w, x, y, next(norms), layer.inner, active=True)
        y = k.linear(h, layer.outer)
    k.select(w, s, k.logits(w, x, y, next(norms)))
    s.advance_rules()
