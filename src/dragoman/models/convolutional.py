"""The convolutional encoder-decoder, ConvS2S (Gehring et al., 2017), discussed in section 2 of the paper.

Each layer sees a window of tokens and adds its gated output to its input; the receptive field grows with depth.
Decoder windows end at the current token, and each decoder layer attends to the source ("multi-step attention").
docs/explanation/rivals.md lists the differences from that paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config import ModelRecipe, Recipe
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.parts import parts
from dragoman.models.seq2seq import AttentionMaps, Memory
from dragoman.models.source import EncodedSource
from dragoman.nn import Dropout, Layout, Padded, ScaledDotProduct
from dragoman.nn.attention.multi_head import start_projection
from dragoman.nn.linear import Linear

SQRT_HALF: Final = 0.5**0.5  # restores unit variance after adding two terms
# Input variance that gives 0.93 after the gate; at 1 or more, the variance of a deep stack would grow.
GAIN: Final = 2.8


class GatedConvolution(nn.Module):
    """Multiply the k concatenated tokens of a window by a matrix `[2 D, k D]`; half of the output gates the other."""

    def __init__(self, d_model: int, width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.dropout = Dropout(dropout)
        self.windows = Linear(width * d_model, 2 * d_model)
        nn.init.normal_(self.windows.weight, std=(GAIN * (1 - dropout) / (width * d_model)) ** 0.5)
        nn.init.zeros_(self.windows.bias)

    def forward(self, x: Tensor) -> Tensor:
        """`[R, T + k - 1, D]` to `[R, T, D]`: an output for each complete window."""
        x = self.dropout(x)
        count = x.shape[1] - self.width + 1
        return F.glu(self.windows(torch.cat([x[:, i : i + count] for i in range(self.width)], dim=-1)), dim=-1)


class EncoderLayer(nn.Module):
    """Windows centered at the token, with zeros beyond the ends of a sentence."""

    def __init__(self, d_model: int, width: int, dropout: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_model, width, dropout)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """`[B, S, D]` to `[B, S, D]`; `real [B, S]` is True at tokens."""
        x = x if real is None else x.masked_fill(~real[:, :, None], 0.0)  # a window must not see padding
        margin = self.convolution.width // 2
        y: Tensor = self.convolution(F.pad(x, (0, 0, margin, margin)))
        return (x + y) * SQRT_HALF


class DecoderLayer(nn.Module):
    """Windows that end at the token itself, then attention to the source."""

    def __init__(self, d_model: int, width: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_model, width, dropout)
        self.query, self.output = Linear(d_model, d_model), Linear(d_model, d_model)
        self.attention, self.attention_dropout = ScaledDotProduct(), attention_dropout
        start_projection(self.query)
        start_projection(self.output)

    def forward(
        self, x: Tensor, past: Tensor, embedded: Tensor, source: EncodedSource, weights: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """`[R, T, D]` to `[R, T, D]`, and the last k - 1 inputs, where the next windows start.

        `past` holds the earlier inputs; `embedded` holds the target embeddings, which are part of the query.
        """
        inputs = torch.cat([past, x], dim=1)
        y = self.convolution(inputs)
        dropout = self.attention_dropout if self.training else 0.0
        context = source.attend(self.attention, (self.query(y) + embedded) * SQRT_HALF, dropout, weights)
        y = (y + self.output(context)) * SQRT_HALF
        return (x + y) * SQRT_HALF, inputs[:, x.shape[1] :]


@dataclass(frozen=True)
class ConvolutionalState:
    """The last k - 1 inputs `[R, k - 1, D]` of each decoder layer, and the source, stored once per sentence."""

    position: int
    past: tuple[Tensor, ...]
    source: EncodedSource

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> ConvolutionalState:
        """Reorder, repeat or drop rows; `sentences` are the ones to keep."""
        past = tuple(x.index_select(0, rows) for x in self.past)
        return ConvolutionalState(self.position, past, self.source.select(sentences))


class Convolutional(EncoderDecoder):
    """Gated convolutions with attention; a preset sets `d_model`, the number of layers and dropout."""

    architecture = "convolutional"

    def __init__(self, recipe: Recipe | ModelRecipe | str, vocabulary: int | tuple[int, int], pad: int = 0) -> None:
        super().__init__(recipe, vocabulary, pad)
        recipe = self.recipe
        d, width, dropout, make = recipe.d_model, recipe.kernel_width, recipe.dropout, parts(recipe)
        self.source_positions, self.target_positions = make.source_positions(), make.target_positions()
        self.dropout = Dropout(dropout)
        self.encoder = nn.ModuleList(EncoderLayer(d, width, dropout) for _ in range(recipe.encoder_layers))
        self.decoder = nn.ModuleList(
            DecoderLayer(d, width, dropout, recipe.attention_dropout) for _ in range(recipe.decoder_layers)
        )
        self.readout = Linear(d, d)
        start_projection(self.readout)

    def encode(self, source: Tensor, layout: Layout | None = None, maps: AttentionMaps | None = None) -> Memory:
        """Encode the sources: `[B, S, 2 D]`, keys and values concatenated.

        A value is the sum of the last layer's output and the token's own embedding.
        """
        layout = self._layout(source, layout, "source")
        words = layout.to_grid(self.dropout(self.source_positions(self.embeddings.source(source), layout)))
        x, real = words, layout.grid.real(words.device)
        for layer in self.encoder:
            x = layer(x, real)
        return Memory(torch.cat([x, (x + words) * SQRT_HALF], dim=-1), layout.grid)

    def decode(
        self, target: Tensor, memory: Memory, layout: Layout | None = None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """The decoder's output `[..., D]` for each token of `target`, before the projection to the vocabulary."""
        layout = self._layout(target, layout, "target")
        words = layout.to_grid(self.dropout(self.target_positions(self.embeddings.target(target), layout)))
        hidden, _ = self._decode(words, self._initial_inputs(words), self._source(memory), maps)
        return layout.from_grid(hidden)

    def start(self, memory: Memory) -> ConvolutionalState:
        """The state before the first target token, one row per sentence."""
        return ConvolutionalState(0, self._initial_inputs(memory.states), self._source(memory))

    def step(
        self, ids: Tensor, state: ConvolutionalState, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, ConvolutionalState]:
        """Next-token logits `[B, V]` after ids `[B]`, and the new state; `[B, T, V]` for ids `[B, T]`."""
        target = self._step_ids(ids, len(state.source.key_values.keys), len(state.past[0]))
        layout = Padded(target.shape[1], offset=state.position)
        words = self.dropout(self.target_positions(self.embeddings.target(target), layout))
        hidden, past = self._decode(words, state.past, state.source, maps)
        logits = self.logits(hidden if ids.dim() == 2 else hidden[:, 0])
        return logits, ConvolutionalState(layout.longest, past, state.source)

    def _initial_inputs(self, like: Tensor) -> tuple[Tensor, ...]:
        """The inputs before the first token: zeros."""
        zeros = like.new_zeros(len(like), self.recipe.kernel_width - 1, self.recipe.d_model)
        return (zeros,) * len(self.decoder)

    def _source(self, memory: Memory) -> EncodedSource:
        """The memory with rescaled values: a mean over m tokens has 1/m of their variance."""
        layout = memory.layout.grid
        keys, values = memory.states.chunk(2, dim=-1)
        if layout.lengths is None:
            return EncodedSource.of(keys, values * layout.size**0.5, layout)
        return EncodedSource.of(keys, values * layout.lengths.sqrt()[:, None, None].to(values.dtype), layout)

    def _decode(
        self, words: Tensor, past: Sequence[Tensor], source: EncodedSource, maps: AttentionMaps | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`[R, T, D]` to `[R, T, D]`, and each layer's last k - 1 inputs."""
        x, after = words, []
        for layer, before in zip(self.decoder, past, strict=True):
            x, kept = layer(x, before, words, source, None if maps is None else maps.cross)
            after.append(kept)
        hidden: Tensor = self.readout(self.dropout(x))
        return hidden, tuple(after)
