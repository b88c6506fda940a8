"""What attention remembers between steps of decoding. The caller owns it; nothing is kept inside the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

LEAST_ROOM: Final = 32  # positions


@dataclass(frozen=True)
class KeyValues:
    """Keys `[B, H, S, K]` and values `[B, H, S, V]` of some positions."""

    keys: Tensor
    values: Tensor

    def select(self, rows: Tensor) -> KeyValues:
        """Row i of the result is row `rows[i]` of this; a row may come twice, or not at all."""
        return KeyValues(self.keys.index_select(0, rows), self.values.index_select(0, rows))


class _Room:
    """Keys and values with room for positions to come, and how many positions anyone has written."""

    def __init__(self, like: KeyValues, rows: int, positions: int) -> None:
        size = max(LEAST_ROOM, 2 * positions)
        self.used = 0
        self.keys, self.values = (
            x.new_empty(rows, x.shape[1], size, x.shape[3], requires_grad=False) for x in (like.keys, like.values)
        )

    def __len__(self) -> int:
        return self.keys.shape[2]

    def until(self, end: int, start: int = 0) -> KeyValues:
        """The positions of a range, as views."""
        return KeyValues(self.keys[:, :, start:end], self.values[:, :, start:end])

    def write(self, new: KeyValues) -> KeyValues:
        """Write behind what is there, and give all of it."""
        start, self.used = self.used, self.used + new.keys.shape[2]
        place = self.until(self.used, start)
        place.keys.copy_(new.keys)
        place.values.copy_(new.values)
        return self.until(self.used)


class GrowingCache:
    """The keys and values of a decoder layer's own past, longer by what each step adds.

    A step writes behind what is there, into room that doubles when it is full. Caches that go on from one past share
    its room: the first to write there keeps it, the next gets room of its own. So a state kept from before a step stays
    good.
    """

    def __init__(self, past: KeyValues | None = None, room: _Room | None = None) -> None:
        self.past, self._room = past, room

    def extend(self, new: KeyValues) -> KeyValues:
        """Add the newest positions, and give all there are."""
        past, room = self.past, self._room
        length = 0 if past is None else past.keys.shape[2]
        if new.keys.requires_grad or (past is not None and past.keys.requires_grad):
            # Who wants gradients gets tensors that are never written to again.
            keys = new.keys if past is None else torch.cat([past.keys, new.keys], dim=2)
            values = new.values if past is None else torch.cat([past.values, new.values], dim=2)
            self.past, self._room = KeyValues(keys, values), None
            return self.past
        end = length + new.keys.shape[2]
        ours = room is not None and room.used == length and end <= len(room)
        if room is None or not ours or (room.keys.is_inference() and not torch.is_inference_mode_enabled()):
            room = _Room(new, len(new.keys), end)
            if past is not None:
                room.write(past)
        self.past, self._room = room.write(new), room
        return self.past

    def fork(self) -> GrowingCache:
        """A cache that goes on from here and leaves this one as it is."""
        return GrowingCache(self.past, self._room)

    def select(self, rows: Tensor) -> GrowingCache:
        """Reorder rows, as beam search does; the room for the next positions is made in the same copy."""
        past = self.past
        if past is None or past.keys.requires_grad:
            return GrowingCache(None if past is None else past.select(rows))
        room = _Room(past, len(rows), past.keys.shape[2] + 1)
        room.used = past.keys.shape[2]
        place = room.until(room.used)
        torch.index_select(past.keys, 0, rows, out=place.keys)
        torch.index_select(past.values, 0, rows, out=place.values)
        return GrowingCache(place, room)
