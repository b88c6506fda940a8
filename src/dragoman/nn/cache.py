"""What a decoder layer keeps between steps. The caller owns it; the model keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol, Self

import torch
from torch import Tensor

MIN_CAPACITY: Final = 32  # positions


class Cache(Protocol):
    """The past of a decoder layer; a step extends it."""

    @property
    def rows(self) -> int | None:
        """The number of rows; None before the first step."""

    def fork(self) -> Self:
        """A cache that continues from here and leaves this one unchanged."""

    def select(self, rows: Tensor) -> Self:
        """Row i of the result is row `rows[i]` of this one."""


class CellCache:
    """The cells `[B, D]` of a recurrent decoder layer after its newest position; None before the first."""

    def __init__(self, cells: Tensor | None = None) -> None:
        self.cells = cells

    @property
    def rows(self) -> int | None:
        """The number of rows; None before the first step."""
        return None if self.cells is None else len(self.cells)

    def fork(self) -> CellCache:
        """A cache that continues from here and leaves this one unchanged: a step replaces the cells."""
        return CellCache(self.cells)

    def select(self, rows: Tensor) -> CellCache:
        """Reorder rows, as beam search does."""
        return CellCache(None if self.cells is None else self.cells.index_select(0, rows))


@dataclass(frozen=True)
class KeyValues:
    """Keys `[B, H, S, K]` and values `[B, H, S, V]` of some positions."""

    keys: Tensor
    values: Tensor

    def select(self, rows: Tensor) -> KeyValues:
        """Row i of the result is row `rows[i]` of this one; a row may appear twice, or not at all."""
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class _Buffer:
    """Keys and values with capacity for more positions, and the number of positions written so far."""

    def __init__(self, like: KeyValues, rows: int, positions: int) -> None:
        size = max(MIN_CAPACITY, 2 * positions)
        self.used = 0
        self.keys, self.values = (
            x.new_empty(rows, x.shape[1], size, x.shape[3], requires_grad=False) for x in (like.keys, like.values)
        )

    def __len__(self) -> int:
        return self.keys.shape[2]

    def view(self, end: int, start: int = 0) -> KeyValues:
        """Views of the positions from `start` to `end`."""
        return KeyValues(self.keys[:, :, start:end], self.values[:, :, start:end])

    def write(self, new: KeyValues) -> KeyValues:
        """Append positions; return all of them."""
        start, self.used = self.used, self.used + new.keys.shape[2]
        target = self.view(self.used, start)
        target.keys.copy_(new.keys)
        target.values.copy_(new.values)
        return self.view(self.used)


class GrowingCache:
    """The keys and values of a decoder layer's own past, extended by each step.

    A step appends to a buffer that doubles when it is full. Caches that continue from the same past share its buffer:
    the first to write keeps it, the next gets its own. A state from before a step therefore stays valid.
    """

    def __init__(self, past: KeyValues | None = None, buffer: _Buffer | None = None) -> None:
        self.past, self._buffer = past, buffer

    @property
    def rows(self) -> int | None:
        """The number of rows; None before the first step."""
        return None if self.past is None else len(self.past.keys)

    def extend(self, new: KeyValues) -> KeyValues:
        """Append the newest positions; return all of them."""
        past, buffer = self.past, self._buffer
        length = 0 if past is None else past.keys.shape[2]
        if new.keys.requires_grad or (past is not None and past.keys.requires_grad):
            # For gradients, tensors must never be written to again.
            keys = new.keys if past is None else torch.cat([past.keys, new.keys], dim=2)
            values = new.values if past is None else torch.cat([past.values, new.values], dim=2)
            self.past, self._buffer = KeyValues(keys, values), None
            return self.past
        end = length + new.keys.shape[2]
        reusable = buffer is not None and buffer.used == length and end <= len(buffer)
        if buffer is None or not reusable or (buffer.keys.is_inference() and not torch.is_inference_mode_enabled()):
            buffer = _Buffer(new, len(new.keys), end)
            if past is not None:
                buffer.write(past)
        self.past, self._buffer = buffer.write(new), buffer
        return self.past

    def fork(self) -> GrowingCache:
        """A cache that continues from here and leaves this one unchanged."""
        return GrowingCache(self.past, self._buffer)

    def select(self, rows: Tensor) -> GrowingCache:
        """Reorder rows, as beam search does; the same copy allocates capacity for the next positions."""
        past = self.past
        if past is None or past.keys.requires_grad:
            return GrowingCache(None if past is None else past.select(rows))
        buffer = _Buffer(past, len(rows), past.keys.shape[2] + 1)
        buffer.used = past.keys.shape[2]
        target = buffer.view(buffer.used)
        torch.index_select(past.keys, 0, rows, out=target.keys)
        torch.index_select(past.values, 0, rows, out=target.values)
        return GrowingCache(target, buffer)
