"""The Transformer, section 3.1: an encoder and a decoder of stacked layers.

model = Transformer("tiny", vocabulary=8000)
logits = model(source, target)                    # teacher forcing, [B, T, V]

state = model.start(model.encode(source))         # decoding, a token at a time
logits, state = model.step(ids, state)            # [B, V]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from torch import Tensor, nn

from dragoman.config import PRESETS, ModelRecipe
from dragoman.errors import RecipeError, ShapeError
from dragoman.models.parts import Parts, parts
from dragoman.models.seq2seq import Memory
from dragoman.nn import (
    Dropout,
    Embeddings,
    GrowingCache,
    KeyValues,
    Layout,
    MultiHeadCrossAttention,
    Packed,
    PackedKeyValues,
    Padded,
    Sees,
    causal,
    everything,
    look,
)
from dragoman.values import suggest


@dataclass(frozen=True)
class AttentionMaps:
    """Attention weights, a tensor `[B, H, T, S]` a layer, for each of the three uses of section 3.2.3.

    Hand an empty one to a call, and the call fills it.
    """

    encoder: list[Tensor] = field(default_factory=list)
    decoder: list[Tensor] = field(default_factory=list)
    cross: list[Tensor] = field(default_factory=list)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each inside a residual connection."""

    def __init__(self, make: Parts) -> None:
        super().__init__()
        self.attention, self.around_attention = make.self_attention(), make.residual()
        self.feed_forward, self.around_feed_forward = make.feed_forward(), make.residual()

    def forward(self, x: Tensor, sees: Sees, real: Tensor | None, weights: list[Tensor] | None = None) -> Tensor:
        """`[..., D]` to `[..., D]`."""
        x = self.around_attention(x, lambda h: self.attention(h, sees, weights=weights), real)
        return self.around_feed_forward(x, self.feed_forward, real)


class DecoderLayer(nn.Module):
    """Self-attention to what was written, attention to the source, then a feed-forward network."""

    def __init__(self, make: Parts) -> None:
        super().__init__()
        self.attention, self.around_attention = make.self_attention(), make.residual()
        self.cross, self.around_cross = make.cross_attention(), make.residual()
        self.feed_forward, self.around_feed_forward = make.feed_forward(), make.residual()

    def forward(
        self,
        x: Tensor,
        sees: Sees,
        source: KeyValues | PackedKeyValues,
        sees_source: Sees,
        real: Tensor | None,
        cache: GrowingCache | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """`[..., D]` to `[..., D]`; `source` is the memory as this layer's keys and values."""
        own, cross = (maps.decoder, maps.cross) if maps is not None else (None, None)
        x = self.around_attention(x, lambda h: self.attention(h, sees, cache=cache, weights=own), real)
        x = self.around_cross(x, lambda h: self.cross(h, source, sees_source, weights=cross), real)
        return self.around_feed_forward(x, self.feed_forward, real)


@dataclass(frozen=True)
class TransformerState:
    """What the decoder remembers: each layer's own past, and the source as each layer's keys and values.

    The source is held once a sentence, however many beams look at it.
    """

    position: int
    source_layout: Padded
    own: tuple[GrowingCache, ...]
    source: tuple[KeyValues, ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> TransformerState:
        """Reorder, widen or narrow the rows; `sentences` names those that stay."""
        own = tuple(cache.select(rows) for cache in self.own)
        if sentences is None:
            return TransformerState(self.position, self.source_layout, own, self.source)
        lengths = self.source_layout.lengths
        layout = Padded(self.source_layout.size, None if lengths is None else lengths[sentences])
        return TransformerState(self.position, layout, own, tuple(past.select(sentences) for past in self.source))


class Transformer(nn.Module):
    """The encoder-decoder Transformer.

    `recipe` is a preset's name ("base" and "big" are the paper's) or a `ModelRecipe`. `vocabulary` is the size of the
    shared vocabulary, or (source, target) for two. Ids equal to `pad` at the end of a row are padding.
    """

    def __init__(self, recipe: ModelRecipe | str, vocabulary: int | tuple[int, int], pad: int = 0) -> None:
        super().__init__()
        if isinstance(recipe, str):
            if recipe not in PRESETS:
                raise RecipeError(f"{recipe!r} is not a preset{suggest(recipe, PRESETS)}")
            recipe = PRESETS[recipe]
        if recipe.tie == "all" and not isinstance(vocabulary, int):
            raise RecipeError(
                f"model.tie='all' needs one vocabulary for source and target, but two came, of {vocabulary[0]} and "
                f"{vocabulary[1]} pieces; use model.tie='target', or a shared vocabulary"
            )
        sizes = (vocabulary, vocabulary) if isinstance(vocabulary, int) else vocabulary
        make = parts(recipe)
        self.recipe, self.vocabulary, self.pad = recipe, vocabulary, pad
        self.embeddings = Embeddings(*sizes, recipe.d_model, recipe.tie)
        self.source_positions, self.target_positions = make.positions(), make.positions()
        self.dropout = Dropout(recipe.dropout)  # section 5.4: also to the sums of embeddings and positions
        self.encoder = nn.ModuleList(EncoderLayer(make) for _ in range(recipe.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(make) for _ in range(recipe.decoder_layers))
        self.encoder_norm, self.decoder_norm = make.last_norm(), make.last_norm()

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_layout: Layout | None = None,
        target_layout: Layout | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """Teacher forcing: logits `[..., V]` for what follows each token of `target`.

        Ids are `[B, S]` and `[B, T]`, padded on the right with `pad`; or laid out as the layouts given say.
        """
        return self.logits(self.hidden(source, target, source_layout, target_layout, maps))

    def hidden(
        self,
        source: Tensor,
        target: Tensor,
        source_layout: Layout | None = None,
        target_layout: Layout | None = None,
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        """Teacher forcing up to the decoder's output `[..., D]`, for those who project only some of it."""
        return self.decode(target, self.encode(source, source_layout, maps), target_layout, maps)

    def logits(self, hidden: Tensor) -> Tensor:
        """The decoder's output `[..., D]` to a score for each piece, `[..., V]`."""
        return self.embeddings.logits(hidden)

    def projection(self) -> Tensor:
        """The matrix `[V, D]` by which `logits` multiplies."""
        return self.embeddings.projection()

    def encode(self, source: Tensor, layout: Layout | None = None, maps: AttentionMaps | None = None) -> Memory:
        """The sources, read: what the decoder looks at."""
        layout = self._layout(source, layout, "source")
        x = self.dropout(self.source_positions(self.embeddings.source(source), layout))
        sees, real = look(layout, layout, everything, x.device), layout.real(x.device)
        for layer in self.encoder:
            x = layer(x, sees, real, None if maps is None else maps.encoder)
        return Memory(x if self.encoder_norm is None else self.encoder_norm(x, real), layout)

    def decode(
        self, target: Tensor, memory: Memory, layout: Layout | None = None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """The decoder's output `[..., D]` for each token of `target`, before the projection to the vocabulary."""
        layout = self._layout(target, layout, "target")
        if type(layout) is not type(memory.layout):
            raise ShapeError("source and target must be laid out alike, both padded or both packed")
        sees = look(layout, layout, causal, target.device)
        source: Sequence[KeyValues | PackedKeyValues]
        if isinstance(memory.layout, Packed) and memory.layout.tiles is not None:
            source = [cross.remember_packed(memory.states, memory.layout) for cross in self._cross()]
        else:
            source = self._remember(memory)
        return self._decode(target, layout, sees, source, memory.layout, (None,) * len(source), maps)

    def start(self, memory: Memory) -> TransformerState:
        """The state before the first target token, one row a sentence."""
        own = tuple(GrowingCache() for _ in self.decoder)
        return TransformerState(0, memory.layout.grid, own, self._remember(memory))

    def step(
        self, ids: Tensor, state: TransformerState, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, TransformerState]:
        """Logits `[B, V]` for what follows ids `[B]`, and the state after them; `[B, T, V]` for ids `[B, T]`."""
        target = ids if ids.dim() == 2 else ids[:, None]
        layout = Padded(target.shape[1], offset=state.position)
        sees = look(layout, Padded(layout.longest), causal, ids.device)
        own = tuple(cache.fork() for cache in state.own)
        x = self._decode(target, layout, sees, state.source, state.source_layout, own, maps)
        logits = self.logits(x if ids.dim() == 2 else x[:, 0])
        return logits, TransformerState(layout.longest, state.source_layout, own, state.source)

    def _remember(self, memory: Memory) -> tuple[KeyValues, ...]:
        """The memory as the keys and values of each decoder layer."""
        return tuple(cross.remember(memory.states, memory.layout) for cross in self._cross())

    def _cross(self) -> Iterator[MultiHeadCrossAttention]:
        """Each decoder layer's attention to the source."""
        return (layer.cross for layer in self.decoder if isinstance(layer, DecoderLayer))

    def _decode(
        self,
        target: Tensor,
        layout: Layout,
        sees: Sees,
        source: Sequence[KeyValues | PackedKeyValues],
        source_layout: Layout,
        caches: tuple[GrowingCache | None, ...],
        maps: AttentionMaps | None,
    ) -> Tensor:
        x = self.dropout(self.target_positions(self.embeddings.target(target), layout))
        sees_source, real = look(layout, source_layout, everything, x.device), layout.real(x.device)
        for layer, past, cache in zip(self.decoder, source, caches, strict=True):
            x = layer(x, sees, past, sees_source, real, cache, maps)
        return x if self.decoder_norm is None else self.decoder_norm(x, real)

    def _layout(self, ids: Tensor, layout: Layout | None, side: str) -> Layout:
        if layout is None and ids.dim() != 2:
            raise ShapeError(
                f"{side} ids have shape {tuple(ids.shape)}; expected [sentences, tokens], or a Packed layout too"
            )
        layout = layout if layout is not None else Padded.of(ids, self.pad)
        if ids.shape[-1] != layout.size:
            raise ShapeError(f"{side} ids have {ids.shape[-1]} columns, but their layout has {layout.size}")
        return layout

    def parameter_count(self) -> int:
        """The number of weights, shared ones counted once."""
        return sum(p.numel() for p in self.parameters())
