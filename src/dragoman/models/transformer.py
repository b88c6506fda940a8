"""The Transformer, section 3.1: an encoder and a decoder of stacked layers.

model = Transformer("tiny", vocabulary=8000)
logits = model(source, target)                    # teacher forcing, [B, T, V]

state = model.start(model.encode(source))         # decoding, a token at a time
logits, state = model.step(ids, state)            # [B, V]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from dragoman.config import ModelRecipe, Recipe
from dragoman.errors import ShapeError
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.parts import Parts, parts
from dragoman.models.seq2seq import AttentionMaps, Memory
from dragoman.nn import Cache, Dropout, KeyValues, Layout, MultiHeadCrossAttention, Packed, Padded
from dragoman.nn.attention.multi_head import HeadTap, PackedKeyValues
from dragoman.nn.attention.sees import Sees, everything, look


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each inside a residual connection."""

    def __init__(self, make: Parts) -> None:
        super().__init__()
        self.attention, self.around_attention = make.encoder_attention(), make.residual()
        self.feed_forward, self.around_feed_forward = make.feed_forward(), make.residual()

    def forward(self, x: Tensor, sees: Sees, real: Tensor | None, weights: list[Tensor] | None = None) -> Tensor:
        """`[..., D]` to `[..., D]`."""
        x = self.around_attention(x, lambda h: self.attention(h, sees, weights=weights), real)
        return self.around_feed_forward(x, self.feed_forward, real)


class DecoderLayer(nn.Module):
    """Masked self-attention or a recurrent unit, attention to the source, then a feed-forward network."""

    def __init__(self, make: Parts) -> None:
        super().__init__()
        self.attention, self.around_attention = make.decoder_attention(), make.residual()
        self.cross, self.around_cross = make.cross_attention(), make.residual()
        self.feed_forward, self.around_feed_forward = make.feed_forward(), make.residual()

    def forward(
        self,
        x: Tensor,
        sees: Sees,
        source: KeyValues | PackedKeyValues,
        sees_source: Sees,
        real: Tensor | None,
        cache: Cache | None = None,
        maps: AttentionMaps | None = None,
        tap: HeadTap | None = None,
    ) -> Tensor:
        """`[..., D]` to `[..., D]`; `source` is the memory as this layer's keys and values."""
        own, cross = (maps.decoder, maps.cross) if maps is not None else (None, None)
        x = self.around_attention(x, lambda h: self.attention(h, sees, cache=cache, weights=own), real)
        x = self.around_cross(x, lambda h: self.cross(h, source, sees_source, weights=cross, tap=tap), real)
        return self.around_feed_forward(x, self.feed_forward, real)


@dataclass(frozen=True)
class TransformerState:
    """The decoder's cache: each layer's own past, and its keys and values for the source.

    The source is stored once per sentence, however many beams attend to it.
    """

    position: int
    source_layout: Padded
    own: tuple[Cache, ...]
    source: tuple[KeyValues, ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> TransformerState:
        """Reorder, repeat or drop rows; `sentences` are the ones to keep."""
        own = tuple(cache.select(rows) for cache in self.own)
        if sentences is None:
            return TransformerState(self.position, self.source_layout, own, self.source)
        lengths = self.source_layout.lengths
        layout = Padded(self.source_layout.size, None if lengths is None else lengths[sentences])
        return TransformerState(self.position, layout, own, tuple(past.select(sentences) for past in self.source))


class Transformer(EncoderDecoder):
    """The encoder-decoder Transformer; the presets "base" and "big" are the paper's."""

    architecture = "transformer"

    def __init__(self, recipe: Recipe | ModelRecipe | str, vocabulary: int | tuple[int, int], pad: int = 0) -> None:
        super().__init__(recipe, vocabulary, pad)
        recipe = self.recipe
        make = parts(recipe)
        self.source_positions, self.target_positions = make.source_positions(), make.target_positions()
        self.dropout = Dropout(recipe.dropout)  # section 5.4: also on the sums of embeddings and positions
        self.encoder = nn.ModuleList(EncoderLayer(make) for _ in range(recipe.encoder_layers))
        self.decoder = nn.ModuleList(DecoderLayer(make) for _ in range(recipe.decoder_layers))
        self.encoder_norm, self.decoder_norm = make.last_norm(), make.last_norm()
        self.encoder_sees, self.decoder_sees = make.encoder_sees, make.decoder_sees
        self.decoder_cache = make.decoder_cache

    def encode(self, source: Tensor, layout: Layout | None = None, maps: AttentionMaps | None = None) -> Memory:
        """Encode the sources."""
        layout = self._layout(source, layout, "source")
        x = self.dropout(self.source_positions(self.embeddings.source(source), layout))
        sees, real = look(layout, layout, self.encoder_sees, x.device), layout.real(x.device)
        for layer in self.encoder:
            x = layer(x, sees, real, None if maps is None else maps.encoder)
        return Memory(x if self.encoder_norm is None else self.encoder_norm(x, real), layout)

    def decode(
        self,
        target: Tensor,
        memory: Memory,
        layout: Layout | None = None,
        maps: AttentionMaps | None = None,
        taps: Mapping[int, HeadTap] | None = None,
    ) -> Tensor:
        """The decoder's output `[..., D]` for each token of `target`, before the projection to the vocabulary.

        `taps` ask for the cross-attention logits of a head, by layer.
        """
        layout = self._layout(target, layout, "target")
        if type(layout) is not type(memory.layout):
            raise ShapeError(
                "source and target need the same layout, both padded or both packed", code="layout_mismatch"
            )
        sees = look(layout, layout, self.decoder_sees, target.device)
        source: Sequence[KeyValues | PackedKeyValues]
        if isinstance(memory.layout, Packed) and memory.layout.tiles is not None:
            source = [cross.remember_packed(memory.states, memory.layout) for cross in self._cross()]
        else:
            source = self._remember(memory)
        return self._decode(target, layout, sees, source, memory.layout, (None,) * len(source), maps, taps)

    def start(self, memory: Memory) -> TransformerState:
        """The state before the first target token, one row per sentence."""
        own = tuple(self.decoder_cache() for _ in self.decoder)
        return TransformerState(0, memory.layout.grid, own, self._remember(memory))

    def step(
        self, ids: Tensor, state: TransformerState, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, TransformerState]:
        """Next-token logits `[B, V]` after ids `[B]`, and the new state; `[B, T, V]` for ids `[B, T]`."""
        target = self._step_ids(ids, len(state.source[0].keys), state.own[0].rows)
        layout = Padded(target.shape[1], offset=state.position)
        sees = look(layout, Padded(layout.longest), self.decoder_sees, ids.device)
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
        caches: tuple[Cache | None, ...],
        maps: AttentionMaps | None,
        taps: Mapping[int, HeadTap] | None = None,
    ) -> Tensor:
        x = self.dropout(self.target_positions(self.embeddings.target(target), layout))
        sees_source, real = look(layout, source_layout, everything, x.device), layout.real(x.device)
        for number, (layer, past, cache) in enumerate(zip(self.decoder, source, caches, strict=True)):
            x = layer(x, sees, past, sees_source, real, cache, maps, None if taps is None else taps.get(number))
        return x if self.decoder_norm is None else self.decoder_norm(x, real)
