"""The encoded source for the recurrent and convolutional decoders: one head, stored once per sentence for all beams."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dragoman.nn import AttentionFunction, KeyValues, Padded, attend_made, everything, look, made_keys


@dataclass(frozen=True)
class EncodedSource:
    """Keys `[B, 1, S, K]` as the attention function caches them, values `[B, 1, S, V]`, and sentence lengths."""

    key_values: KeyValues
    layout: Padded

    @classmethod
    def of(
        cls, keys: Tensor, values: Tensor, layout: Padded, function: AttentionFunction | None = None
    ) -> EncodedSource:
        """From keys `[B, S, K]`, preprocessed if `function` does so, and values `[B, S, V]`."""
        cached = keys[:, None] if function is None else made_keys(function, keys[:, None], layout)
        return cls(KeyValues(cached, values[:, None]), layout)

    def select(self, sentences: Tensor | None) -> EncodedSource:
        """Keep these sentences; None keeps all."""
        if sentences is None:
            return self
        lengths = self.layout.lengths
        layout = Padded(self.layout.size, None if lengths is None else lengths[sentences])
        return EncodedSource(self.key_values.select(sentences), layout)

    def attend(
        self, function: AttentionFunction, query: Tensor, dropout: float = 0.0, weights: list[Tensor] | None = None
    ) -> Tensor:
        """`[R, T, V]` from queries `[R, T, K]`; the weights `[R, 1, T, S]` are appended to `weights`.

        The W rows (beams) of a sentence become W queries to it.
        """
        rows, length, size = query.shape
        sentences, queries = len(self.key_values.keys), length * (rows // max(1, len(self.key_values.keys)))
        sees = look(Padded(queries), self.layout, everything, query.device)
        folded = query.reshape(sentences, 1, queries, size)
        keys, values, with_weights = self.key_values.keys, self.key_values.values, weights is not None
        attended = attend_made(function, folded, keys, values, sees, dropout=dropout, weights=with_weights)
        if weights is not None and attended.weights is not None:
            weights.append(attended.weights.reshape(rows, 1, length, self.layout.size))
        return attended.output.reshape(rows, length, self.key_values.values.shape[-1])
