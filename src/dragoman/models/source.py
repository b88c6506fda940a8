"""The source as the rivals' decoders look at it: one head, held once a sentence, however many beams ask."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dragoman.nn import AttentionFunction, KeyValues, Padded, attend_made, everything, look, made_keys


@dataclass(frozen=True)
class Source:
    """Keys `[B, 1, S, K]`, as the function that will ask takes them, values `[B, 1, S, V]`, and the sentences' ends."""

    past: KeyValues
    layout: Padded

    @classmethod
    def of(cls, keys: Tensor, values: Tensor, layout: Padded, function: AttentionFunction | None = None) -> Source:
        """From keys `[B, S, K]` and values `[B, S, V]`, for a function that makes something of keys, if it is one."""
        held = keys[:, None] if function is None else made_keys(function, keys[:, None], layout)
        return cls(KeyValues(held, values[:, None]), layout)

    def select(self, sentences: Tensor | None) -> Source:
        """The sentences that stay; None for all."""
        if sentences is None:
            return self
        lengths = self.layout.lengths
        layout = Padded(self.layout.size, None if lengths is None else lengths[sentences])
        return Source(self.past.select(sentences), layout)

    def attend(
        self, function: AttentionFunction, query: Tensor, dropout: float = 0.0, weights: list[Tensor] | None = None
    ) -> Tensor:
        """`[R, T, V]` from queries `[R, T, K]`; the weights `[R, 1, T, S]` go into the caller's list, if there is one.

        Where there are W rows a sentence (beams), they stand side by side as so many queries of it.
        """
        rows, width, size = query.shape
        sentences, beside = len(self.past.keys), width * (rows // max(1, len(self.past.keys)))
        sees = look(Padded(beside), self.layout, everything, query.device)
        folded = query.reshape(sentences, 1, beside, size)
        past, asked = self.past, weights is not None
        attended = attend_made(function, folded, past.keys, past.values, sees, dropout=dropout, weights=asked)
        if weights is not None and attended.weights is not None:
            weights.append(attended.weights.reshape(rows, 1, width, self.layout.size))
        return attended.output.reshape(rows, width, self.past.values.shape[-1])
