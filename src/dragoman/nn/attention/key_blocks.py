"""The keys that blocks of queries see under a sparse rule: what a kernel gathers.

A block of consecutive queries shares one list of keys: the first positions, a window around the block, and the random
partners of each query. The list has no key twice, and the rule itself says which query of the block sees which key, so
that gathering shows exactly what the mask shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import torch
from torch import Tensor

from dragoman.nn.attention.random_pairs import capacity_for, random_pairs
from dragoman.nn.attention.sees import Sparsity

BLOCK_SIZES: Final = (16, 32, 64)
GATHER_COST: Final = 7.5  # of a key in a list, in comparisons with a query; measured on a CPU
CPU_BLOCKS: Final = 4  # blocks of queries at once: what they gather fits into the cache
GPU_BLOCKS: Final = 64  # enough to occupy a GPU


@dataclass(frozen=True)
class KeyBlocks:
    """Consecutive blocks of queries, from position `start`, with the keys that each block sees.

    `index [blocks, M]` lists positions of keys, the largest of which is `furthest`; `hidden [blocks, block, M]` is True
    where a query does not see a key, and in the columns that fill up shorter lists.
    """

    start: int
    index: Tensor
    hidden: Tensor
    furthest: int

    @property
    def end(self) -> int:
        """The position after the last query."""
        return self.start + self.hidden.shape[0] * self.hidden.shape[1]


def key_blocks(sparsity: Sparsity, length: int, device: torch.device) -> list[KeyBlocks]:
    """Blocks that cover sentences of `length` positions, except the first ones, which see all if not causal.

    Lists are kept, and made for powers of two: few of them serve all lengths. A list may therefore contain keys after
    the end of the sentence.
    """
    made = _made(sparsity, capacity_for(length), device)
    return [blocks for blocks in made if blocks.start < length]


@dataclass(frozen=True)
class KeyLists:
    """The same for kernels that work on one list at a time: blocks of `size` positions from `start`.

    The list of block i is `index[ends[i] : ends[i + 1]]`.
    """

    start: int
    size: int
    index: Tensor
    ends: Tensor

    def count(self, length: int) -> int:
        """The number of blocks of sentences of this length."""
        return max(0, -(-(length - self.start) // self.size))


@cache  # recorded CUDA graphs keep reading the lists, so none is ever freed
def key_lists(sparsity: Sparsity, capacity: int, device: torch.device, reverse: bool = False) -> KeyLists:
    """The keys that each block of queries sees; if `reverse`, the queries that see each block of keys.

    The first positions are left out where they see all or are seen by all.
    """
    start = min(sparsity.n_first, capacity) if reverse or not sparsity.causal else 0
    size = block_size(sparsity)
    n_blocks = -(-(capacity - start) // size)
    block = start + size * torch.arange(n_blocks)[:, None]
    near, far = _span(sparsity, block, size, reverse)
    around = near + torch.arange(int((far - near).max()) if n_blocks else 0)
    # In a causal rule, the first positions do not see later keys.
    leading = torch.arange(0 if reverse and sparsity.causal else min(sparsity.n_first, capacity))
    around = torch.where(around >= sparsity.n_first, around, capacity)
    partners, ends = _partners(sparsity, capacity, start, size, n_blocks, reverse)
    listed, owner = torch.cat([leading.expand(n_blocks, -1), around], 1), torch.arange(n_blocks)
    kept = listed < capacity
    owners = torch.cat(
        [owner.repeat_interleave(kept.sum(1)), owner.repeat_interleave(torch.tensor(ends, dtype=torch.int64).diff())]
    )
    index = torch.cat([listed[kept], partners])[owners.argsort(stable=True)]
    totals = torch.cat([owners.new_zeros(1), torch.bincount(owners, minlength=n_blocks).cumsum(0)])
    return KeyLists(start, size, index.int().to(device), totals.int().to(device))


@cache  # recorded CUDA graphs keep reading the lists, so none is ever freed
def _made(sparsity: Sparsity, capacity: int, device: torch.device) -> list[KeyBlocks]:
    size, start = block_size(sparsity), 0 if sparsity.causal else min(sparsity.n_first, capacity)
    n_blocks = -(-(capacity - start) // size)
    partners, ends = _partners(sparsity, capacity, start, size, n_blocks)
    at_once = CPU_BLOCKS if device.type == "cpu" else GPU_BLOCKS
    made = []
    for first in range(0, n_blocks, at_once):
        last = min(n_blocks, first + at_once)
        block = start + size * torch.arange(first, last)[:, None]  # the first query of each
        near, far = _span(sparsity, block, size)
        around = near + torch.arange(int((far - near).max()))
        around = torch.where((around >= sparsity.n_first) & (around < capacity), around, -1)
        leading = torch.arange(min(sparsity.n_first, capacity)).expand(last - first, -1)
        drawn = torch.nn.utils.rnn.pad_sequence(
            [partners[ends[i] : ends[i + 1]] for i in range(first, last)], batch_first=True, padding_value=-1
        )
        index = torch.cat([leading, around, drawn], 1)
        query = block[:, :, None] + torch.arange(size)[:, None]
        hidden = ~sparsity.rule(query, index[:, None]) | (index < 0)[:, None]
        made.append(
            KeyBlocks(
                int(block[0]),
                index.clamp(min=0).to(device),
                hidden.to(device),
                int(index.max()) if index.numel() else 0,
            )
        )
    return made


def block_size(sparsity: Sparsity) -> int:
    """The number of queries that share a list, by the cost of comparing and of gathering."""
    sides = 1 if sparsity.causal else 2
    random = sparsity.random.count if sparsity.random is not None else 0

    def cost(size: int) -> float:
        n_keys = sparsity.n_first + size * (1 + sides * random) + sides * max(sparsity.radius, 0)
        return n_keys * (1 + GATHER_COST / size)

    return min(BLOCK_SIZES, key=cost)


def _span(sparsity: Sparsity, block: Tensor, size: int, reverse: bool = False) -> tuple[Tensor, Tensor]:
    """The window around blocks that start at these positions, from the first key to after the last; may be empty."""
    if sparsity.radius < 0:
        return block, block
    before = 0 if sparsity.causal and reverse else sparsity.radius
    after = 0 if sparsity.causal and not reverse else sparsity.radius
    return block - before, block + size + after


def _partners(
    sparsity: Sparsity, capacity: int, start: int, size: int, n_blocks: int, reverse: bool = False
) -> tuple[Tensor, list[int]]:
    """The random partners of each block that are not in its list anyway, end to end, and where those of each end."""
    if sparsity.random is None:
        return torch.empty(0, dtype=torch.int64), [0] * (n_blocks + 1)
    low, high = random_pairs(sparsity.random, capacity)
    pairs = [(low, high) if reverse else (high, low)] if sparsity.causal else [(high, low), (low, high)]
    query, key = (torch.cat(side) for side in zip(*pairs, strict=True))
    block = (query - start) // size  # floor, so that earlier queries are in negative blocks
    near, far = _span(sparsity, start + size * block, size, reverse)
    kept = (query >= start) & (key >= sparsity.n_first) & ((key < near) | (key >= far))
    code = torch.unique((block * capacity + key)[kept])
    counts = torch.bincount(code // capacity, minlength=n_blocks)
    return code % capacity, [0, *counts.cumsum(0).tolist()]
