"""The recurrent encoder-decoder with attention, the model that section 1 of the paper sets out to replace.

The design follows GNMT (Wu et al., 2016). The first encoder layer is bidirectional; the others read forward. The first
decoder layer attends to the source (Bahdanau et al., 2015, or the dot product of Luong et al., 2015), and its context
is an input to every higher layer. Nothing is fed back to the first layer, so in training each layer runs over the whole
target at once. The output is Luong's attentional state, tanh(W [state; context]). docs/explanation/rivals.md lists the
differences from these papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dragoman.config import ModelRecipe, Recipe
from dragoman.errors import RecipeError
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.parts import recurrent_attention
from dragoman.models.seq2seq import AttentionMaps, Memory
from dragoman.models.source import EncodedSource
from dragoman.nn import Dropout, Layout, Padded
from dragoman.nn.linear import Linear

Cell = Literal["lstm", "gru", "rnn"]
# The plain cell is Elman's (1990): h = tanh(W x + U h + b).
CELLS: Final[dict[str, type[nn.LSTM | nn.GRU | nn.RNN]]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}
CellState = tuple[Tensor, ...]  # [1, R, D] each: an LSTM's output and cell, the output of the others


class RecurrentLayer(nn.Module):
    """A layer that reads from left to right, with dropout on its input but not on its state.

    With `residual`, the input is added to the output.
    """

    def __init__(self, cell: Cell, d_input: int, d_model: int, dropout: float, residual: bool = False) -> None:
        super().__init__()
        self.cell = CELLS[cell](d_input, d_model, batch_first=True)
        self.dropout, self.residual = Dropout(dropout), residual
        initialize_cell(self.cell)

    def forward(
        self,
        x: Tensor,
        past: CellState | None = None,
        context: Tensor | None = None,
        lengths: Tensor | None = None,
    ) -> tuple[Tensor, CellState]:
        """`[R, T, C]` to `[R, T, D]`, and the state after it; `context` is concatenated to `x`.

        With `lengths [R]`, on the CPU, it is the state after the last token of each sentence: zeros if it is empty.
        """
        inputs: Any = self.dropout(x if context is None else torch.cat([x, context], dim=-1))
        before: Any = past if past is None or isinstance(self.cell, nn.LSTM) else past[0]
        if torch.is_autocast_enabled(x.device.type):  # cells stay in float32: not every cuDNN supports other types
            inputs = inputs.float()
        if lengths is not None and len(x):
            inputs = pack_padded_sequence(inputs, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
        with torch.autocast(x.device.type, enabled=False):
            y, after = self.cell(inputs, before)
        after = after if isinstance(after, tuple) else (after,)
        if lengths is not None and len(x):
            y, _ = pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
            filled = (lengths > 0).to(x.device)[:, None]
            after = tuple(state * filled for state in after)
        return x + y if self.residual else y, after


class BidirectionalLayer(nn.Module):
    """Two layers in parallel, one reading each sentence backward."""

    def __init__(self, cell: Cell, d_input: int, d_model: int, dropout: float) -> None:
        super().__init__()
        self.forwards = RecurrentLayer(cell, d_input, d_model, dropout)
        self.backwards = RecurrentLayer(cell, d_input, d_model, dropout)

    def forward(self, x: Tensor, layout: Padded) -> Tensor:
        """`[B, S, C]` to `[B, S, 2 D]`."""
        ahead, back = self.forwards(x)[0], self.backwards(reverse_sentences(x, layout))[0]
        return torch.cat([ahead, reverse_sentences(back, layout)], dim=-1)


def reverse_sentences(x: Tensor, layout: Padded) -> Tensor:
    """Reverse the tokens of each sentence of `[B, S, C]`; padding stays at the end."""
    if layout.lengths is None:
        return x.flip(1)
    place, last = torch.arange(layout.size, device=x.device), layout.lengths[:, None] - 1
    return x.gather(1, torch.where(place <= last, last - place, place)[:, :, None].expand_as(x))


def initialize_cell(cell: nn.RNNBase) -> None:
    """Xavier initialization for the input, orthogonal matrices for the recurrence, gate by gate.

    Biases are zero, except that an LSTM's forget gates start open (Jozefowicz et al., 2015).
    """
    size = cell.hidden_size
    for name, weights in cell.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(weights)
            continue
        for gate in weights.data.view(-1, size, weights.shape[-1]):
            nn.init.xavier_uniform_(gate) if name.startswith("weight_ih") else nn.init.orthogonal_(gate)
    if isinstance(cell, nn.LSTM):
        nn.init.ones_(cell.get_parameter("bias_ih_l0").data[size : 2 * size])


@dataclass(frozen=True)
class RecurrentState:
    """The state of each decoder layer, one row per hypothesis, and the source, stored once per sentence."""

    past: tuple[CellState, ...]
    source: EncodedSource

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> RecurrentState:
        """Reorder, repeat or drop rows; `sentences` are the ones to keep."""
        return RecurrentState(select_rows(self.past, rows), self.source.select(sentences))


def select_rows(past: Sequence[CellState], rows: Tensor) -> tuple[CellState, ...]:
    """The states of these rows, in each layer."""
    return tuple(tuple(x.index_select(1, rows) for x in layer) for layer in past)


class Recurrent(EncoderDecoder):
    """LSTMs, GRUs or Elman cells with attention; a preset sets `d_model`, the number of layers and dropout."""

    architecture = "recurrent"

    def __init__(self, recipe: Recipe | ModelRecipe | str, vocabulary: int | tuple[int, int], pad: int = 0) -> None:
        super().__init__(recipe, vocabulary, pad)
        recipe = self.recipe
        if recipe.attention == "none":
            message = "Recurrent attends to the source, but model.attention='none'; use Bottleneck, or build_model"
            raise RecipeError(message, code="architecture_mismatch")
        d, cell, dropout = recipe.d_model, recipe.cell, recipe.dropout
        d_memory = d if recipe.encoder_layers > 1 else 2 * d
        higher = range(recipe.encoder_layers - 1)
        layers = [RecurrentLayer(cell, d if i else 2 * d, d, dropout, residual=i > 0) for i in higher]
        self.encoder = nn.ModuleList([BidirectionalLayer(cell, d, d, dropout), *layers])
        self.decoder = nn.ModuleList([RecurrentLayer(cell, d, d, dropout)])
        for _ in range(recipe.decoder_layers - 1):
            self.decoder.append(RecurrentLayer(cell, d + d_memory, d, dropout, residual=True))
        self.attention, self.attention_keys = recurrent_attention(recipe, d_memory)
        self.readout = Linear(d + d_memory, d)
        nn.init.xavier_uniform_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)
        self.dropout = Dropout(dropout)

    def encode(self, source: Tensor, layout: Layout | None = None, maps: AttentionMaps | None = None) -> Memory:
        """Encode the sources: `[B, S, D]`, or `[B, S, 2 D]` if there is one layer."""
        layout = self._layout(source, layout, "source")
        x = self.encoder[0](layout.to_grid(self.embeddings.source(source)), layout.grid)
        for layer in self.encoder[1:]:
            x, _ = layer(x)
        return Memory(x, layout.grid)

    def decode(
        self, target: Tensor, memory: Memory, layout: Layout | None = None, maps: AttentionMaps | None = None
    ) -> Tensor:
        """The decoder's output `[..., D]` for each token of `target`, before the projection to the vocabulary."""
        layout = self._layout(target, layout, "target")
        x = layout.to_grid(self.embeddings.target(target))
        hidden, _ = self._decode(x, [None] * len(self.decoder), self._source(memory), maps)
        return layout.from_grid(hidden)

    def start(self, memory: Memory) -> RecurrentState:
        """The state before the first target token, one row per sentence: zeros."""
        zeros = memory.states.new_zeros(1, len(memory.states), self.recipe.d_model)
        past = (zeros, zeros) if self.recipe.cell == "lstm" else (zeros,)
        return RecurrentState((past,) * len(self.decoder), self._source(memory))

    def step(
        self, ids: Tensor, state: RecurrentState, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Next-token logits `[B, V]` after ids `[B]`, and the new state; `[B, T, V]` for ids `[B, T]`."""
        x = self.embeddings.target(self._step_ids(ids, len(state.source.key_values.keys), state.past[0][0].shape[1]))
        hidden, past = self._decode(x, state.past, state.source, maps)
        logits = self.logits(hidden if ids.dim() == 2 else hidden[:, 0])
        return logits, RecurrentState(past, state.source)

    def _source(self, memory: Memory) -> EncodedSource:
        return EncodedSource.of(self.attention_keys(memory.states), memory.states, memory.layout.grid, self.attention)

    def _decode(
        self, x: Tensor, past: Sequence[CellState | None], source: EncodedSource, maps: AttentionMaps | None
    ) -> tuple[Tensor, tuple[CellState, ...]]:
        """`[R, T, D]` to `[R, T, D]`, and the state of each layer after it."""
        x, first = self.decoder[0](x, past[0])
        after = [first]
        dropout = self.recipe.attention_dropout if self.training else 0.0
        context = source.attend(self.attention, x, dropout, None if maps is None else maps.cross)
        for layer, before in zip(self.decoder[1:], past[1:], strict=True):
            x, updated = layer(x, before, context)
            after.append(updated)
        hidden = torch.tanh(self.readout(self.dropout(torch.cat([x, context], dim=-1))))
        return hidden, tuple(after)
