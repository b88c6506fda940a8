"""The recurrent encoder-decoder with attention, which the paper's section 1 sets out to replace.

The design is GNMT's (Wu et al., 2016) in the form that became usual. The first encoder layer reads both ways, the
others forwards. The first decoder layer asks the source (Bahdanau et al., 2015, or the dot product of Luong et al.,
2015), and what it is told goes into every higher layer beside what comes from below. Nothing is fed back to the first
layer, so that in training each layer runs over the whole target at once. The output is Luong's attentional state,
tanh(W [state; context]). docs/rivals.md has what differs from these papers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from dragoman.config import ModelRecipe, Recipe
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.parts import recurrent_attention
from dragoman.models.seq2seq import AttentionMaps, Memory
from dragoman.models.source import Source
from dragoman.nn import Dropout, Layout, Padded
from dragoman.nn.linear import Linear

CELLS: Final[dict[str, type[nn.LSTM | nn.GRU]]] = {"lstm": nn.LSTM, "gru": nn.GRU}
Past = tuple[Tensor, ...]  # what a layer remembers, [1, R, D] each: an LSTM's output and cell, a GRU's output


class RecurrentLayer(nn.Module):
    """A layer that reads from left to right, with dropout on what comes in and not on what it remembers.

    With `residual`, what comes from below is added to what goes up.
    """

    def __init__(
        self, cell: Literal["lstm", "gru"], d_input: int, d_model: int, dropout: float, residual: bool = False
    ) -> None:
        super().__init__()
        self.cell = CELLS[cell](d_input, d_model, batch_first=True)
        self.dropout, self.residual = Dropout(dropout), residual
        start_cell(self.cell)

    def forward(self, x: Tensor, past: Past | None = None, beside: Tensor | None = None) -> tuple[Tensor, Past]:
        """`[R, T, C]` to `[R, T, D]`, and what is remembered after it; `beside` is read together with `x`."""
        incoming = self.dropout(x if beside is None else torch.cat([x, beside], dim=-1))
        before: Any = past if past is None or isinstance(self.cell, nn.LSTM) else past[0]
        if torch.is_autocast_enabled(x.device.type):  # cells stay in float32: not every cuDNN has others
            with torch.autocast(x.device.type, enabled=False):
                y, after = self.cell(incoming.float(), before)
        else:
            y, after = self.cell(incoming, before)
        return x + y if self.residual else y, after if isinstance(after, tuple) else (after,)


class BothWays(nn.Module):
    """Two layers side by side, of which one reads each sentence from its end."""

    def __init__(self, cell: Literal["lstm", "gru"], d_input: int, d_model: int, dropout: float) -> None:
        super().__init__()
        self.forwards = RecurrentLayer(cell, d_input, d_model, dropout)
        self.backwards = RecurrentLayer(cell, d_input, d_model, dropout)

    def forward(self, x: Tensor, layout: Padded) -> Tensor:
        """`[B, S, C]` to `[B, S, 2 D]`."""
        ahead, back = self.forwards(x)[0], self.backwards(turned(x, layout))[0]
        return torch.cat([ahead, turned(back, layout)], dim=-1)


def turned(x: Tensor, layout: Padded) -> Tensor:
    """Each sentence of `[B, S, C]` from its last token to its first; padding stays behind it."""
    if layout.lengths is None:
        return x.flip(1)
    place, last = torch.arange(layout.size, device=x.device), layout.lengths[:, None] - 1
    return x.gather(1, torch.where(place <= last, last - place, place)[:, :, None].expand_as(x))


def start_cell(cell: nn.RNNBase) -> None:
    """Xavier's start for what comes in, orthogonal matrices for what is remembered, gate by gate.

    Biases are nothing, but an LSTM's gates begin by keeping what they have (Jozefowicz et al., 2015).
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
    """What each decoder layer remembers, a row a hypothesis, and the source, once a sentence."""

    past: tuple[Past, ...]
    source: Source

    def select(self, rows: Tensor, sentences: Tensor | None = None) -> RecurrentState:
        """Reorder, widen or narrow the rows; `sentences` names those that stay."""
        past = tuple(tuple(x.index_select(1, rows) for x in layer) for layer in self.past)
        return RecurrentState(past, self.source.select(sentences))


class Recurrent(EncoderDecoder):
    """LSTMs or GRUs with attention; a preset's name gives `d_model`, the numbers of layers and dropout."""

    architecture = "recurrent"

    def __init__(self, recipe: Recipe | ModelRecipe | str, vocabulary: int | tuple[int, int], pad: int = 0) -> None:
        super().__init__(recipe, vocabulary, pad)
        recipe = self.recipe
        d, cell, dropout = recipe.d_model, recipe.cell, recipe.dropout
        d_memory = d if recipe.encoder_layers > 1 else 2 * d
        higher = [
            RecurrentLayer(cell, d if i else 2 * d, d, dropout, residual=i > 0)
            for i in range(recipe.encoder_layers - 1)
        ]
        self.encoder = nn.ModuleList([BothWays(cell, d, d, dropout), *higher])
        self.decoder = nn.ModuleList([RecurrentLayer(cell, d, d, dropout)])
        for _ in range(recipe.decoder_layers - 1):
            self.decoder.append(RecurrentLayer(cell, d + d_memory, d, dropout, residual=True))
        self.attention, self.attention_keys = recurrent_attention(recipe, d_memory)
        self.readout = Linear(d + d_memory, d)
        nn.init.xavier_uniform_(self.readout.weight)
        nn.init.zeros_(self.readout.bias)
        self.dropout = Dropout(dropout)

    def encode(self, source: Tensor, layout: Layout | None = None, maps: AttentionMaps | None = None) -> Memory:
        """The sources, read: `[B, S, D]`, and `[B, S, 2 D]` where there is one layer."""
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
        """The state before the first target token, one row a sentence: nothing is remembered."""
        nothing = memory.states.new_zeros(1, len(memory.states), self.recipe.d_model)
        past = (nothing, nothing) if self.recipe.cell == "lstm" else (nothing,)
        return RecurrentState((past,) * len(self.decoder), self._source(memory))

    def step(
        self, ids: Tensor, state: RecurrentState, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, RecurrentState]:
        """Logits `[B, V]` for what follows ids `[B]`, and the state after them; `[B, T, V]` for ids `[B, T]`."""
        x = self.embeddings.target(self._written(ids, len(state.source.past.keys), state.past[0][0].shape[1]))
        hidden, past = self._decode(x, state.past, state.source, maps)
        logits = self.logits(hidden if ids.dim() == 2 else hidden[:, 0])
        return logits, RecurrentState(past, state.source)

    def _source(self, memory: Memory) -> Source:
        return Source.of(self.attention_keys(memory.states), memory.states, memory.layout.grid, self.attention)

    def _decode(
        self, x: Tensor, past: Sequence[Past | None], source: Source, maps: AttentionMaps | None
    ) -> tuple[Tensor, tuple[Past, ...]]:
        """`[R, T, D]` to `[R, T, D]`, and what each layer remembers after it."""
        x, first = self.decoder[0](x, past[0])
        after = [first]
        dropout = self.recipe.attention_dropout if self.training else 0.0
        context = source.attend(self.attention, x, dropout, None if maps is None else maps.cross)
        for layer, before in zip(self.decoder[1:], past[1:], strict=True):
            x, remembered = layer(x, before, context)
            after.append(remembered)
        hidden = torch.tanh(self.readout(self.dropout(torch.cat([x, context], dim=-1))))
        return hidden, tuple(after)
