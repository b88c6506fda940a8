"""How the sentences of a batch lie in a tensor: padded, or packed end to end.

Position-wise code works on `[..., D]` and never asks. Attention and positions ask a layout two things: at which
position of its sentence a token stands, and how to lay tokens out as a grid `[B, L, C]`, one row a sentence, on which
sentences cannot see each other. Both layouts give the same numbers at every real token; what stands at padding is
finite and means nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from dragoman.errors import ShapeError


@dataclass(frozen=True)
class Padded:
    """`[B, T, ...]`: a row a sentence, filled up on the right.

    `lengths` None says that every token is real. `offset` is the position of the first column, for steps that continue
    what a cache remembers.
    """

    size: int
    lengths: Tensor | None = None
    offset: int = 0

    @classmethod
    def of(cls, ids: Tensor, pad: int) -> Padded:
        """The layout of padded ids `[B, T]`: a sentence ends at its last id that is not `pad`."""
        columns = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        return cls(ids.shape[1], (columns * (ids != pad)).amax(-1) if ids.shape[1] else columns.new_zeros(len(ids)))

    @property
    def grid(self) -> Padded:
        """The padded layout in which attention works: this one."""
        return self

    @property
    def longest(self) -> int:
        """No token stands at this position or beyond it."""
        return self.offset + self.size

    def positions(self, device: torch.device) -> Tensor:
        """Where each column stands in its sentence, `[T]`."""
        return torch.arange(self.offset, self.longest, device=device)

    def real(self, device: torch.device) -> Tensor | None:
        """`[B, T]`, True at tokens and False at padding; None where all is real."""
        return None if self.lengths is None else self.positions(device) < self.lengths[:, None]

    def by_column(self, table: Tensor) -> Tensor:
        """For each token, the row of `table [T, C]` that belongs to its column of the grid."""
        return table

    def to_grid(self, x: Tensor) -> Tensor:
        """`[B, T, C]` as it is."""
        return x

    def from_grid(self, x: Tensor) -> Tensor:
        """`[B, T, C]` as it is."""
        return x


@dataclass(frozen=True)
class Packed:
    """`[N, ...]`: sentences end to end, no padding between them, filler after the last; every step has one shape.

    Made by `Packed.of`. Sentences of length 0 are allowed, so that their number can be fixed too.
    """

    size: int
    lengths: Tensor
    longest: int
    position: Tensor
    slot: Tensor
    filled: Tensor

    @classmethod
    def of(cls, lengths: Tensor, size: int | None = None, longest: int | None = None) -> Packed:
        """Sentences of these `lengths`, in a tensor of `size` tokens, none longer than `longest`.

        Giving `size` and `longest` keeps the shapes fixed from step to step and asks nothing of the device.
        """
        total = int(lengths.sum()) if size is None or lengths.device.type == "cpu" else None
        most = int(lengths.max()) if longest is None or lengths.device.type == "cpu" else None
        size = size if size is not None else total
        longest = longest if longest is not None else most
        assert size is not None and longest is not None  # each is given or was just read from `lengths`
        if total is not None and total > size:
            raise ShapeError(f"sentences of {total} tokens in all do not fit into a packed tensor of {size}")
        if most is not None and most > longest:
            raise ShapeError(f"a sentence of {most} tokens came, but longest={longest} was promised")
        ends = lengths.cumsum(0)
        token = torch.arange(size, device=lengths.device)
        sentence = torch.searchsorted(ends, token, right=True)  # filler belongs to sentence B, which does not exist
        filled = sentence < len(lengths)
        started = ends - lengths
        inside = sentence.clamp(max=len(lengths) - 1)
        position = torch.where(filled, token - started[inside], 0)
        slot = torch.where(filled, inside * longest + position, len(lengths) * longest)
        return cls(size, lengths, longest, position, slot, filled)

    @property
    def grid(self) -> Padded:
        """The same sentences a row each, in which attention works."""
        return Padded(self.longest, self.lengths)

    def real(self, device: torch.device) -> Tensor | None:
        """`[N]`, True at tokens and False at filler."""
        return self.filled

    def by_column(self, table: Tensor) -> Tensor:
        """For each token, the row of `table [L, C]` that belongs to its column of the grid."""
        return table[self.position]

    def to_grid(self, x: Tensor) -> Tensor:
        """`[N, C]` to `[B, L, C]`, zeros at padding."""
        rows = len(self.lengths) * self.longest
        # One row more takes all the filler; copying by index has a gather for its gradient, which is deterministic.
        spread = x.new_zeros(rows + 1, x.shape[-1]).index_copy(0, self.slot, x)
        return spread[:rows].view(len(self.lengths), self.longest, x.shape[-1])

    def from_grid(self, x: Tensor) -> Tensor:
        """`[B, L, C]` to `[N, C]`, zeros at filler."""
        flat = x.flatten(0, 1)
        return flat[self.slot.clamp(max=len(flat) - 1)] * self.filled[:, None]


Layout = Padded | Packed
