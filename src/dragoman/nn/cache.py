"""What attention remembers between steps of decoding. The caller owns it; nothing is kept inside the model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class KeyValues:
    """Keys `[B, H, S, K]` and values `[B, H, S, V]` of some positions."""

    keys: Tensor
    values: Tensor

    def select(self, rows: Tensor) -> KeyValues:
        """Row i of the result is row `rows[i]` of this; a row may come twice, or not at all."""
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class GrowingCache:
    """The keys and values of a decoder layer's own past, longer by what each step adds."""

    def __init__(self, past: KeyValues | None = None) -> None:
        self.past = past

    def extend(self, new: KeyValues) -> KeyValues:
        """Add the newest positions, and give all there are.

        The old tensors are not written to, so that a state kept from before the step stays good.
        """
        if self.past is not None:
            keys = torch.cat([self.past.keys, new.keys], dim=2)
            new = KeyValues(keys, torch.cat([self.past.values, new.values], dim=2))
        self.past = new
        return new

    def fork(self) -> GrowingCache:
        """A cache that goes on from here and leaves this one as it is."""
        return GrowingCache(self.past)

    def select(self, rows: Tensor) -> GrowingCache:
        """Reorder rows, as beam search does."""
        return GrowingCache(None if self.past is None else self.past.select(rows))
