"""The recurrent encoder-decoder without attention (Sutskever et al., 2014): one vector stands for the source.

Each decoder layer starts from the last state of the encoder layer at its height, and nothing else passes between them.
The vector has the same size for a source of two words and of fifty: the bottleneck that attention removes (Bahdanau
et al., 2015). With `reverse_source`, the encoder reads the source backward, so that the first words of the source,
with which the translation usually begins, are the last that it has read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from dragoman.config import PRESETS, ModelRecipe, Recipe, preset_for
from dragoman.errors import RecipeError
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.recurrent import CellState, RecurrentLayer, reverse_sentences, select_rows
from dragoman.models.seq2seq import AttentionMaps, Memory
from dragoman.nn import Dropout, Layout, Padded
from dragoman.nn.linear import Linear


@dataclass(frozen=True)
class BottleneckState:
    """The state of each decoder layer, one row per hypothesis; the source is not needed any more."""

    past: tuple[CellState, ...]

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> BottleneckState:
        """Reorder, repeat or drop rows."""
        return BottleneckState(select_rows(self.past, rows))


class Bottleneck(EncoderDecoder):
    """LSTMs, GRUs or Elman cells without attention; a preset sets `d_model`, the number of layers and dropout."""

    architecture = "recurrent"

    def __init__(self, recipe: Recipe | ModelRecipe | str, vocabulary: int | tuple[int, int], pad: int = 0) -> None:
        if isinstance(recipe, str) and recipe in PRESETS:
            recipe = replace(preset_for(recipe, self.architecture), attention="none")
        super().__init__(recipe, vocabulary, pad)
        recipe = self.recipe
        if recipe.attention != "none":
            message = f"Bottleneck has no attention, but model.attention={recipe.attention!r}; use 'none', or Recurrent"
            raise RecipeError(message, code="architecture_mismatch")
        d, n_layers = recipe.d_model, recipe.encoder_layers
        self.encoder, self.decoder = (
            nn.ModuleList(RecurrentLayer(recipe.cell, d, d, recipe.dropout, residual=i > 0) for i in range(n_layers))
            for _ in range(2)
        )
        self.readout = Linear(d, d)
        nn.init.xavier_uniform_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)
        self.dropout = Dropout(recipe.dropout)

    def encode(self, source: Tensor, layout: Layout | None = None, maps: AttentionMaps | None = None) -> Memory:
        """Encode the sources as one vector each, `[B, 1, C]`: the last state of every layer."""
        layout = self._layout(source, layout, "source")
        x, grid = layout.to_grid(self.embeddings.source(source)), layout.grid
        x = reverse_sentences(x, grid) if self.recipe.reverse_source else x
        lengths = None if grid.lengths is None else grid.lengths.cpu()
        states: list[Tensor] = []
        for layer in self.encoder:
            x, last = layer(x, lengths=lengths)
            states += last
        return Memory(torch.cat(states, dim=-1).transpose(0, 1), Padded(1))

    def decode(
        self, target: Tensor, memory: Memory, layout: Layout | None = None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """The decoder's output `[..., D]` for each token of `target`, before the projection to the vocabulary."""
        layout = self._layout(target, layout, "target")
        hidden, _ = self._decode(layout.to_grid(self.embeddings.target(target)), self.start(memory).past)
        return layout.from_grid(hidden)

    def start(self, memory: Memory) -> BottleneckState:
        """The state before the first target token, one row per sentence: the vectors of the sources."""
        states = [x.contiguous() for x in torch.split(memory.states.transpose(0, 1), self.recipe.d_model, dim=-1)]
        per_layer = len(states) // len(self.decoder)
        return BottleneckState(tuple(tuple(states[i : i + per_layer]) for i in range(0, len(states), per_layer)))

    def step(
        self, ids: Tensor, state: BottleneckState, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, BottleneckState]:
        """Next-token logits `[B, V]` after ids `[B]`, and the new state; `[B, T, V]` for ids `[B, T]`."""
        rows = state.past[0][0].shape[1]
        hidden, past = self._decode(self.embeddings.target(self._step_ids(ids, rows, rows)), state.past)
        return self.logits(hidden if ids.dim() == 2 else hidden[:, 0]), BottleneckState(past)

    def _decode(self, x: Tensor, past: Sequence[CellState]) -> tuple[Tensor, tuple[CellState, ...]]:
        """`[R, T, D]` to `[R, T, D]`, and the state of each layer after it."""
        after = []
        for layer, before in zip(self.decoder, past, strict=True):
            x, updated = layer(x, before)
            after.append(updated)
        return torch.tanh(self.readout(self.dropout(x))), tuple(after)
