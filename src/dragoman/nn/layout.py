"""The layout of the sentences of a batch in a tensor: padded, or packed end to end.

Position-wise code works on `[..., D]` and needs no layout. Attention and position codes use it for two things: the
position of each token in its sentence, and a grid `[B, L, C]` with one row per sentence, in which sentences cannot see
each other. Both layouts give the same numbers at every real token; values at padding are finite and meaningless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from dragoman.errors import ShapeError

TILE: Final = 64  # rows per program of the packed attention kernels; most sentences are shorter


@dataclass(frozen=True)
class Padded:
    """`[B, T, ...]`: one row per sentence, padded on the right.

    If `lengths` is None, every token is real. `offset` is the position of the first column, for decoding steps that
    continue from a cache. `depths [B, T]` is the depth of each token in its sentence's tree, if known.
    """

    size: int
    lengths: Tensor | None = None
    offset: int = 0
    depths: Tensor | None = None

    @classmethod
    def of(cls, ids: Tensor, pad: int) -> Padded:
        """The layout of padded ids `[B, T]`: a sentence ends at its last id that is not `pad`."""
        columns = torch.arange(1, ids.shape[1] + 1, device=ids.device)
        return cls(ids.shape[1], (columns * (ids != pad)).amax(-1) if ids.shape[1] else columns.new_zeros(len(ids)))

    @property
    def grid(self) -> Padded:
        """The padded layout that attention uses: this one."""
        return self

    @property
    def longest(self) -> int:
        """An upper bound: every token's position is below it."""
        return self.offset + self.size

    def positions(self, device: torch.device) -> Tensor:
        """The position of each column in its sentence, `[T]`."""
        return torch.arange(self.offset, self.longest, device=device)

    def real(self, device: torch.device) -> Tensor | None:
        """`[B, T]`, True at tokens and False at padding; None if there is no padding."""
        return None if self.lengths is None else self.positions(device) < self.lengths[:, None]

    def by_column(self, table: Tensor) -> Tensor:
        """For each token, the row of `table [T, C]` for its column of the grid."""
        return table

    def to_grid(self, x: Tensor) -> Tensor:
        """`[B, T, C]` unchanged."""
        return x

    def from_grid(self, x: Tensor) -> Tensor:
        """`[B, T, C]` unchanged."""
        return x


@dataclass(frozen=True)
class Packed:
    """`[N, ...]`: sentences end to end without padding, then filler, so that every step has the same shape.

    Built by `Packed.of`. Sentences of length 0 are allowed, so that their number can be fixed too. With `tiles` (see
    `joint_tiles`), attention works on the packed sentences directly; without, it first scatters them to a grid.
    `depths [N]` is the depth of each token in its sentence's tree, if known.
    """

    size: int
    lengths: Tensor
    longest: int
    position: Tensor
    slot: Tensor
    filled: Tensor
    sentence: Tensor
    tiles: Tensor | None = None
    depths: Tensor | None = None

    @classmethod
    def of(
        cls,
        lengths: Tensor | Sequence[int],
        size: int | None = None,
        longest: int | None = None,
        tiles: Tensor | None = None,
        depths: Tensor | None = None,
    ) -> Packed:
        """Sentences of these `lengths`, in a tensor of `size` tokens, none longer than `longest`.

        Giving `size` and `longest` keeps shapes fixed from step to step and avoids a device synchronization.
        """
        if not isinstance(lengths, Tensor):
            lengths = as_lengths(lengths)
        cheap = lengths.device.type == "cpu" and not torch.compiler.is_compiling()
        if cheap and (lengths.dim() != 1 or not len(lengths) or lengths.is_floating_point() or int(lengths.min()) < 0):
            message = f"lengths are whole numbers, one for each sentence, 0 or more; got {lengths.tolist()!r:.80}"
            raise ShapeError(message, code="wrong_type")
        total = int(lengths.sum()) if size is None or cheap else None
        most = int(lengths.max()) if longest is None or cheap else None
        size = size if size is not None else total
        longest = longest if longest is not None else most
        assert size is not None and longest is not None  # each is given or was just computed from `lengths`
        if total is not None and total > size:
            raise ShapeError(f"sentences of {total} tokens in all do not fit into a packed tensor of {size}")
        if most is not None and most > longest:
            raise ShapeError(f"a sentence has {most} tokens, more than longest={longest}", code="text_too_long")
        ends = lengths.cumsum(0)
        token = torch.arange(size, device=lengths.device)
        sentence = torch.searchsorted(ends, token, right=True)  # filler belongs to sentence B, which does not exist
        filled = sentence < len(lengths)
        started = ends - lengths
        inside = sentence.clamp(max=len(lengths) - 1)
        position = torch.where(filled, token - started[inside], 0)
        slot = torch.where(filled, inside * longest + position, len(lengths) * longest)
        return cls(size, lengths, longest, position, slot, filled, inside, tiles, depths)

    @property
    def grid(self) -> Padded:
        """The padded layout of the same sentences, which attention uses."""
        return Padded(self.longest, self.lengths)

    def real(self, device: torch.device) -> Tensor | None:
        """`[N]`, True at tokens and False at filler."""
        return self.filled

    def by_column(self, table: Tensor) -> Tensor:
        """For each token, the row of `table [L, C]` for its column of the grid."""
        return table[self.position]

    def bounds(self, other: Packed) -> tuple[Tensor, Tensor]:
        """The start and end in `other` of each token's sentence; an empty range for filler."""
        ends = other.lengths.cumsum(0)
        low, high = (edge[self.sentence] * self.filled for edge in (ends - other.lengths, ends))
        return low.int(), high.int()

    def to_grid(self, x: Tensor) -> Tensor:
        """`[N, C]` to `[B, L, C]`, zeros at padding."""
        rows = len(self.lengths) * self.longest
        # An extra row takes the filler. The gradient of an indexed copy is a gather, which is deterministic.
        spread = x.new_zeros(rows + 1, x.shape[-1]).index_copy(0, self.slot, x)
        return spread[:rows].view(len(self.lengths), self.longest, x.shape[-1])

    def from_grid(self, x: Tensor) -> Tensor:
        """`[B, L, C]` to `[N, C]`, zeros at filler."""
        flat = x.flatten(0, 1)
        return flat[self.slot.clamp(max=len(flat) - 1)] * self.filled[:, None]


Layout = Padded | Packed


def as_lengths(lengths: Sequence[int]) -> Tensor:
    """Lengths as a tensor, or an error if they are not whole numbers."""
    try:
        return torch.tensor(lengths)
    except (TypeError, ValueError, RuntimeError):
        raise ShapeError(
            f"lengths are whole numbers, one for each sentence; got {lengths!r:.80}", code="wrong_type"
        ) from None


def joint_tiles(
    source: Tensor, target: Tensor, source_size: int, target_size: int, tile: int = TILE
) -> tuple[Tensor, Tensor]:
    """The first row of each tile of at most `tile` rows among packed sources and targets, padded with the sizes.

    Lengths are on the host. Both tables cut between the same sentences: sentences share a tile as long as they fit on
    both sides, so attention inside a tile needs no other tile. A longer sentence gets its own tiles. Two adjacent
    tiles hold more than `tile` rows on one side, or end a longer sentence, which bounds the size of the tables.
    """
    starts: tuple[list[int], list[int]] = ([0], [0])
    a = b = 0
    for s, t in zip(source.tolist(), target.tolist(), strict=True):
        fits = a + s - starts[0][-1] <= tile and b + t - starts[1][-1] <= tile
        if not fits:
            for part in range(0, max(s, t, 1) if max(s, t) > tile else 1, tile):
                starts[0].append(a + min(part, s))
                starts[1].append(b + min(part, t))
        a, b = a + s, b + t
        if not fits and max(s, t) > tile:
            starts[0].append(a)
            starts[1].append(b)
    for part in range(0, max(source_size - a, target_size - b), tile):
        starts[0].append(min(a + part, source_size))
        starts[1].append(min(b + part, target_size))
    tables = []
    for found, size in zip(starts, (source_size, target_size), strict=True):
        table = torch.full((3 * (source_size + target_size) // tile + 6,), size, dtype=torch.int32)
        table[: len(found)] = torch.tensor(found, dtype=torch.int32)
        tables.append(table)
    return tables[0], tables[1]
