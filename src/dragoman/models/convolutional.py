"""The convolutional encoder-decoder, ConvS2S (Gehring et al., 2017), which the paper's section 2 compares itself with.

A layer looks at a window of tokens, and its gated output is added to what came in; so many layers see so many windows
wide. The decoder's windows end at the token itself, and each of its layers asks the source again ("multi-step
attention"). docs/rivals.md has what differs from that paper.
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
from dragoman.models.source import Source
from dragoman.nn import Dropout, Layout, Padded, ScaledDotProduct
from dragoman.nn.attention.multi_head import start_projection
from dragoman.nn.linear import Linear

HALF: Final = 0.5**0.5  # the sum of two things of unit variance has it again
# Variance before a gate that leaves 0.93 behind it: at 1 and over, a deep stack would run away from unit variance.
GAIN: Final = 2.8


class GatedConvolution(nn.Module):
    """A window of k tokens end to end, times one matrix `[2 D, k D]`, half of whose output gates the other half."""

    def __init__(self, d_model: int, width: int, dropout: float) -> None:
        super().__init__()
        self.width = width
        self.dropout = Dropout(dropout)
        self.windows = Linear(width * d_model, 2 * d_model)
        nn.init.normal_(self.windows.weight, std=(GAIN * (1 - dropout) / (width * d_model)) ** 0.5)
        nn.init.zeros_(self.windows.bias)

    def forward(self, x: Tensor) -> Tensor:
        """`[R, T + k - 1, D]` to `[R, T, D]`: an output for each window that fits."""
        x = self.dropout(x)
        fits = x.shape[1] - self.width + 1
        return F.glu(self.windows(torch.cat([x[:, i : i + fits] for i in range(self.width)], dim=-1)), dim=-1)


class EncoderLayer(nn.Module):
    """Windows with the token in their middle; beyond the ends of a sentence they see zeros."""

    def __init__(self, d_model: int, width: int, dropout: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_model, width, dropout)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        """`[B, S, D]` to `[B, S, D]`; `real [B, S]` is True at tokens."""
        x = x if real is None else x.masked_fill(~real[:, :, None], 0.0)  # a window must not see padding
        beyond = self.convolution.width // 2
        y: Tensor = self.convolution(F.pad(x, (0, 0, beyond, beyond)))
        return (x + y) * HALF


class DecoderLayer(nn.Module):
    """Windows that end at the token itself, then a question to the source."""

    def __init__(self, d_model: int, width: int, dropout: float, attention_dropout: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(d_model, width, dropout)
        self.query, self.output = Linear(d_model, d_model), Linear(d_model, d_model)
        self.attention, self.attention_dropout = ScaledDotProduct(), attention_dropout
        start_projection(self.query)
        start_projection(self.output)

    def forward(
        self, x: Tensor, past: Tensor, written: Tensor, source: Source, weights: list[Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """`[R, T, D]` to `[R, T, D]`, and the last k - 1 inputs, which the windows of the next tokens begin with.

        `past` is what stood before, and `written` the embeddings of the target: a question knows the token it is at.
        """
        seen = torch.cat([past, x], dim=1)
        y = self.convolution(seen)
        dropout = self.attention_dropout if self.training else 0.0
        told = source.attend(self.attention, (self.query(y) + written) * HALF, dropout, weights)
        y = (y + self.output(told)) * HALF
        return (x + y) * HALF, seen[:, x.shape[1] :]


@dataclass(frozen=True)
class ConvolutionalState:
    """The last k - 1 inputs `[R, k - 1, D]` of each decoder layer, and the source, once a sentence."""

    position: int
    past: tuple[Tensor, ...]
    source: Source

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> ConvolutionalState:
        """Reorder, widen or narrow the rows; `sentences` names those that stay."""
        past = tuple(x.index_select(0, rows) for x in self.past)
        return ConvolutionalState(self.position, past, self.source.select(sentences))


class Convolutional(EncoderDecoder):
    """Gated convolutions with attention; a preset's name gives `d_model`, the numbers of layers and dropout."""

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
        """The sources, read: `[B, S, 2 D]`, the keys and beside them the values.

        A value is the last layer's output and the token's own embedding: the company and the word itself.
        """
        layout = self._layout(source, layout, "source")
        words = layout.to_grid(self.dropout(self.source_positions(self.embeddings.source(source), layout)))
        x, real = words, layout.grid.real(words.device)
        for layer in self.encoder:
            x = layer(x, real)
        return Memory(torch.cat([x, (x + words) * HALF], dim=-1), layout.grid)

    def decode(
        self, target: Tensor, memory: Memory, layout: Layout | None = None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """The decoder's output `[..., D]` for each token of `target`, before the projection to the vocabulary."""
        layout = self._layout(target, layout, "target")
        words = layout.to_grid(self.dropout(self.target_positions(self.embeddings.target(target), layout)))
        hidden, _ = self._decode(words, self._nothing(words), self._source(memory), maps)
        return layout.from_grid(hidden)

    def start(self, memory: Memory) -> ConvolutionalState:
        """The state before the first target token, one row a sentence."""
        return ConvolutionalState(0, self._nothing(memory.states), self._source(memory))

    def step(
        self, ids: Tensor, state: ConvolutionalState, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, ConvolutionalState]:
        """Logits `[B, V]` for what follows ids `[B]`, and the state after them; `[B, T, V]` for ids `[B, T]`."""
        target = self._written(ids, len(state.source.past.keys), len(state.past[0]))
        layout = Padded(target.shape[1], offset=state.position)
        words = self.dropout(self.target_positions(self.embeddings.target(target), layout))
        hidden, past = self._decode(words, state.past, state.source, maps)
        logits = self.logits(hidden if ids.dim() == 2 else hidden[:, 0])
        return logits, ConvolutionalState(layout.longest, past, state.source)

    def _nothing(self, like: Tensor) -> tuple[Tensor, ...]:
        """What stands before the first token."""
        zeros = like.new_zeros(len(like), self.recipe.kernel_width - 1, self.recipe.d_model)
        return (zeros,) * len(self.decoder)

    def _source(self, memory: Memory) -> Source:
        """The memory as every layer asks it: a mean over m tokens has 1/m of their variance, which is given back."""
        layout = memory.layout.grid
        keys, values = memory.states.chunk(2, dim=-1)
        if layout.lengths is None:
            return Source.of(keys, values * layout.size**0.5, layout)
        return Source.of(keys, values * layout.lengths.sqrt()[:, None, None].to(values.dtype), layout)

    def _decode(
        self, words: Tensor, past: Sequence[Tensor], source: Source, maps: AttentionMaps | None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """`[R, T, D]` to `[R, T, D]`, and what each layer's next windows begin with."""
        x, after = words, []
        for layer, before in zip(self.decoder, past, strict=True):
            x, kept = layer(x, before, words, source, None if maps is None else maps.cross)
            after.append(kept)
        hidden: Tensor = self.readout(self.dropout(x))
        return hidden, tuple(after)
