"""Forecasters: the Transformer's layers on patches of values in place of token embeddings.

`DirectForecaster` reads the past with an encoder and predicts the whole horizon with one projection (as PatchTST; Nie
et al., 2023). `DecoderForecaster` is the paper's encoder-decoder: it predicts patch after patch, each from those
before it. Each column is a separate series, and all columns share the weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dragoman.config.forecast import ForecasterRecipe
from dragoman.errors import ShapeError
from dragoman.forecast.normalization import InstanceNormalization, Level, NoNormalization
from dragoman.forecast.quantiles import ordered_quantiles
from dragoman.models.parts import parts
from dragoman.models.seq2seq import AttentionMaps, Memory
from dragoman.models.transformer import DecoderLayer, EncoderLayer
from dragoman.nn import Cache, Dropout, KeyValues, Padded
from dragoman.nn.attention.sees import everything, look
from dragoman.nn.linear import Linear


class Forecaster(nn.Module, ABC):
    """Past values `[B, C, L]` to predictions `[B, C, T, Q]`; `columns` is C.

    `calendar [B, L + T, K]` holds the calendar features of past and future; K is 0 without them.
    """

    def __init__(self, recipe: ForecasterRecipe, columns: int) -> None:
        super().__init__()
        self.recipe, self.columns = recipe, columns
        settings, model, make = recipe.forecast, recipe.model, parts(recipe.model)
        self.settings, self.parts = settings, make
        self.median = settings.quantiles.index(0.5) if settings.quantiles else 0
        match settings.normalization:
            case "none":
                self.normalization = NoNormalization()
            case "instance" | "instance_affine" as kind:
                self.normalization = InstanceNormalization(columns, kind == "instance_affine")
        features = 2 * len(settings.calendar)
        self.embedding = Linear(settings.patch, model.d_model)
        self.calendar = Linear(features, model.d_model, bias=False) if features else None
        self.source_positions = make.source_positions()
        self.dropout = Dropout(model.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(make) for _ in range(model.encoder_layers))
        self.encoder_norm = make.last_norm()
        self.head_dropout = Dropout(settings.head_dropout)

    def encode(self, past: Tensor, calendar: Tensor, maps: AttentionMaps | None = None) -> Memory:
        """Encode normalized values `[B, C, L]`; the memory has a row for each column of each window."""
        self._check(past)
        settings, rows = self.settings, past.flatten(0, 1)
        if settings.overlaps:  # the last value repeated, so that the newest values are in as many patches as others
            rows = F.pad(rows, (0, settings.stride), mode="replicate")
        x = self.embedding(rows.unfold(-1, settings.patch, settings.stride))
        layout = Padded(x.shape[1])
        if self.calendar is not None:
            last = torch.arange(x.shape[1], device=x.device) * settings.stride + settings.patch - 1
            stamps = calendar[:, last.clamp(max=settings.look_back - 1)]
            x = x + self.calendar(stamps).repeat_interleave(self.columns, 0)
        x = self.dropout(self.source_positions(x, layout))
        sees = look(layout, layout, self.parts.encoder_sees, x.device)
        for layer in self.encoder:
            x = layer(x, sees, None, None if maps is None else maps.encoder)
        return Memory(x if self.encoder_norm is None else self.encoder_norm(x, None), layout)

    def forward(self, past: Tensor, calendar: Tensor, future: Tensor) -> Tensor:
        """Predictions to compare with `future [B, C, T]`; where the model decodes, with teacher forcing."""
        level = self.normalization.measure(past)
        normal = self.normalization.normalize(past, level)
        given = self.normalization.normalize(future, level)
        return self._restore(self._train(normal, calendar, given), level)

    def predict(self, past: Tensor, calendar: Tensor, maps: AttentionMaps | None = None) -> Tensor:
        """Predictions from the past alone, `[B, C, T, Q]`."""
        level = self.normalization.measure(past)
        return self._restore(self._predict(self.normalization.normalize(past, level), calendar, maps), level)

    def parameter_count(self) -> int:
        """The number of weights."""
        return sum(p.numel() for p in self.parameters())

    @abstractmethod
    def _train(self, past: Tensor, calendar: Tensor, future: Tensor) -> Tensor:
        """Normalized predictions `[B, C, T, Q]`, given the true future where the model decodes."""

    @abstractmethod
    def _predict(self, past: Tensor, calendar: Tensor, maps: AttentionMaps | None = None) -> Tensor:
        """Normalized predictions `[B, C, T, Q]` from the past alone."""

    def _restore(self, y: Tensor, level: Level) -> Tensor:
        return self.normalization.restore(y.float(), level)

    def _outputs(self, raw: Tensor) -> Tensor:
        """Raw numbers `[..., Q]` as predictions: one value, or quantiles in order."""
        return ordered_quantiles(raw, self.median) if self.settings.quantiles else raw

    def _check(self, past: Tensor) -> None:
        if past.dim() != 3 or past.shape[1:] != (self.columns, self.settings.look_back):
            raise ShapeError(
                f"the past has shape {tuple(past.shape)}; expected [windows, {self.columns} columns, "
                f"{self.settings.look_back} steps]"
            )


class DirectForecaster(Forecaster):
    """An encoder, and one projection from all its states to the horizon."""

    def __init__(self, recipe: ForecasterRecipe, columns: int) -> None:
        super().__init__(recipe, columns)
        settings = self.settings
        width = settings.n_patches * recipe.model.d_model
        self.head = Linear(width, settings.horizon * settings.n_outputs)
        features = 2 * len(settings.calendar)
        self.future_calendar = Linear(features, settings.n_outputs, bias=False) if features else None

    def _train(self, past: Tensor, calendar: Tensor, future: Tensor) -> Tensor:
        return self._predict(past, calendar)

    def _predict(self, past: Tensor, calendar: Tensor, maps: AttentionMaps | None = None) -> Tensor:
        states = self.encode(past, calendar, maps).states
        settings = self.settings
        raw = self.head(self.head_dropout(states.flatten(1)))
        raw = raw.view(len(past), self.columns, settings.horizon, settings.n_outputs)
        if self.future_calendar is not None:
            raw = raw + self.future_calendar(calendar[:, None, settings.look_back :])
        return self._outputs(raw)


@dataclass(frozen=True)
class DecoderState:
    """The caches of a decoder between two steps: each layer's own past, and the encoded series."""

    position: int
    layout: Padded
    own: tuple[Cache, ...]
    source: tuple[KeyValues, ...]


class DecoderForecaster(Forecaster):
    """The paper's encoder-decoder. The decoder starts with the last patch of the past."""

    def __init__(self, recipe: ForecasterRecipe, columns: int) -> None:
        super().__init__(recipe, columns)
        settings, model, make = self.settings, recipe.model, self.parts
        self.target_embedding = Linear(settings.patch, model.d_model)
        self.target_positions = make.target_positions()
        self.decoder = nn.ModuleList(DecoderLayer(make) for _ in range(model.decoder_layers))
        self.decoder_norm = make.last_norm()
        self.head = Linear(model.d_model, settings.patch * settings.n_outputs)

    def start(self, memory: Memory) -> DecoderState:
        """The state before the first step."""
        layers = [layer for layer in self.decoder if isinstance(layer, DecoderLayer)]
        source = tuple(layer.cross.remember(memory.states, memory.layout) for layer in layers)
        return DecoderState(0, memory.layout.grid, tuple(self.parts.decoder_cache() for _ in layers), source)

    def step(
        self, patches: Tensor, calendar: Tensor, state: DecoderState, maps: AttentionMaps | None = None
    ) -> tuple[Tensor, DecoderState]:
        """The patches `[rows, N, P, Q]` that follow `patches [rows, N, P]`, and the new state."""
        layout = Padded(patches.shape[1], offset=state.position)
        own = tuple(cache.fork() for cache in state.own)
        sees = look(layout, Padded(layout.longest), self.parts.decoder_sees, patches.device)
        y = self._decode(patches, calendar, layout, sees, state.source, state.layout, own, maps)
        return y, DecoderState(layout.longest, state.layout, own, state.source)

    def _train(self, past: Tensor, calendar: Tensor, future: Tensor) -> Tensor:
        settings = self.settings
        memory = self.encode(past, calendar)
        missing = settings.n_steps * settings.patch - settings.horizon  # the last patch may end after the horizon
        known = torch.cat([past[..., -settings.patch :], F.pad(future, (0, missing))], -1).flatten(0, 1)
        patches = known.unfold(-1, settings.patch, settings.patch)[:, :-1]
        layout = Padded(patches.shape[1])
        sees = look(layout, layout, self.parts.decoder_sees, past.device)
        source = self.start(memory).source
        y = self._decode(patches, calendar, layout, sees, source, memory.layout.grid, (None,) * len(source))
        return self._horizon(y, len(past))

    def _predict(self, past: Tensor, calendar: Tensor, maps: AttentionMaps | None = None) -> Tensor:
        state = self.start(self.encode(past, calendar, maps))
        patch = past[..., -self.settings.patch :].flatten(0, 1)[:, None]
        found = []
        for _ in range(self.settings.n_steps):
            y, state = self.step(patch, calendar, state, maps)
            found.append(y)
            patch = y[..., self.median]
        return self._horizon(torch.cat(found, 1), len(past))

    def _horizon(self, y: Tensor, windows: int) -> Tensor:
        """Patches `[rows, N, P, Q]` as `[B, C, T, Q]`."""
        flat = y.flatten(1, 2)[:, : self.settings.horizon]
        return flat.reshape(windows, self.columns, *flat.shape[1:])

    def _decode(
        self,
        patches: Tensor,
        calendar: Tensor,
        layout: Padded,
        sees: object,
        source: tuple[KeyValues, ...],
        source_layout: Padded,
        caches: tuple[Cache | None, ...],
        maps: AttentionMaps | None = None,
    ) -> Tensor:
        settings = self.settings
        x = self.target_embedding(patches)
        if self.calendar is not None:  # of the last time step that each output predicts
            last = settings.look_back - 1 + settings.patch * (1 + layout.positions(x.device))
            stamps = calendar[:, last.clamp(max=calendar.shape[1] - 1)]
            x = x + self.calendar(stamps).repeat_interleave(self.columns, 0)
        x = self.dropout(self.target_positions(x, layout))
        sees_source = look(layout, source_layout, everything, x.device)
        for layer, past, cache in zip(self.decoder, source, caches, strict=True):
            x = layer(x, sees, past, sees_source, None, cache, maps)
        x = x if self.decoder_norm is None else self.decoder_norm(x, None)
        raw = self.head(self.head_dropout(x))
        return self._outputs(raw.view(*raw.shape[:2], settings.patch, settings.n_outputs))


def build_forecaster(recipe: ForecasterRecipe, columns: int) -> Forecaster:
    """The forecaster that a recipe describes, with random weights."""
    match recipe.forecast.mode:
        case "direct":
            return DirectForecaster(recipe, columns)
        case "decoder":
            return DecoderForecaster(recipe, columns)
