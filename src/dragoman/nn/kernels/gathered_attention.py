"""Attention to few keys in time and memory proportional to the length: gathered blocks, as a PyTorch operator.

A block of queries shares a list of keys (`nn/attention/key_blocks.py`): these are gathered, and one product compares
them with the block. A few blocks are computed at a time and their weights are not kept; the backward pass computes them
again. Biases for distances are applied on the way: ALiBi's slopes, and the two tables of relative positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.nn.attention.key_blocks import GPU_BLOCKS, KeyBlocks, key_blocks
from dragoman.nn.attention.sees import Sparsity, scattered
from dragoman.nn.dropout import hashed_mask
from dragoman.nn.kernels.listed_attention import _sparsity, listed_attention, supported

CPU_SCORES: Final = 1 << 20  # of queries that see all positions, at once
GPU_SCORES: Final = 1 << 24
KEYS_AT_ONCE: Final = 4096  # whose gradients from such queries are computed at once
STRIDE: Final = 0.6180339887  # between the random seeds of blocks: the golden ratio keeps them apart


def gathered_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    sparsity: Sparsity,
    *,
    slopes: Tensor | None = None,
    tables: tuple[Tensor, Tensor] | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attention `[B, H, L, V]` within sentences of these lengths, for queries, keys and values `[B, H, L, ...]`.

    `slopes [H]` times the distance is subtracted from scores. `tables`, `[2m + 1, K]` and `[2m + 1, V]`, have a vector
    for each distance from -m to m, added to keys and to values.
    """
    if tables is None and not dropout and supported(q, v):
        return listed_attention(q, k, v, lengths, slopes, sparsity)
    random = sparsity.random if sparsity.random is not None else scattered(0)
    seeds = torch.rand(2, device=q.device) if dropout else None
    key_table, value_table = tables if tables is not None else (None, None)
    shape = sparsity.radius, sparsity.n_first, random.count, random.seed, sparsity.causal
    out: Tensor = _gathered_attention(q, k, v, lengths, slopes, key_table, value_table, seeds, dropout, *shape)
    return out


@dataclass(frozen=True)
class _Part:
    """Some blocks of queries of some sentences, and their scores.

    Letters: N blocks, T queries of a block, M keys of a list, R distances of a table.
    """

    rows: slice
    start: int
    end: int
    blocks: KeyBlocks | None  # None if every key is seen, by one block of queries
    hidden: Tensor | None  # [B or 1, 1, N, T, M]
    distance: Tensor  # [N, T, M], of key from query
    number: int

    def queries(self, x: Tensor) -> Tensor:
        """`[B, H, L, C]` to `[B, H, N, T, C]` for these queries, zeros after the end."""
        n, t = self.distance.shape[:2]
        x = x[self.rows, :, self.start : self.end]
        missing = n * t - x.shape[2]
        return (F.pad(x, (0, 0, 0, missing)) if missing else x).reshape(*x.shape[:2], n, t, x.shape[-1])

    def write(self, out: Tensor, x: Tensor) -> None:
        """Write `x [B, H, N, T, C]` to these queries of `out [B, H, L, C]`."""
        out[self.rows, :, self.start : self.end] = x.flatten(2, 3)[:, :, : self.end - self.start]

    def gather(self, x: Tensor) -> Tensor:
        """`[B, H, L, C]` to `[B, H, N, M, C]`: the listed keys."""
        x = x[self.rows]
        if self.blocks is None:
            return x[:, :, None]
        return x.index_select(2, self._index(x)).view(*x.shape[:2], len(self.distance), -1, x.shape[-1])

    def add(self, total: Tensor, weights: Tensor, x: Tensor) -> None:
        """The reverse for gradients: add `weights [B, H, N, T, M]`, transposed, times `x` to the listed keys."""
        total = total[self.rows]
        if self.blocks is not None:
            total.index_add_(2, self._index(total), (weights.mT @ x).flatten(2, 3).to(total.dtype))
            return
        for start in range(0, total.shape[2], KEYS_AT_ONCE):
            some = slice(start, start + KEYS_AT_ONCE)
            total[:, :, some] += (weights[:, :, 0, :, some].mT @ x[:, :, 0]).to(total.dtype)

    def _index(self, x: Tensor) -> Tensor:
        assert self.blocks is not None
        index = self.blocks.index[: len(self.distance)].flatten()
        return index if self.blocks.furthest < x.shape[2] else index.clamp(max=x.shape[2] - 1)  # those are hidden

    def weights(self, q: Tensor, k: Tensor, slopes: Tensor | None, key_table: Tensor | None) -> Tensor:
        """Weights `[B, H, N, T, M]` in float32 or better; zeros if a query sees nothing."""
        scores = q @ k.mT
        if key_table is not None:
            scores = scores + (q @ key_table.mT).gather(-1, self.buckets(key_table, scores))
        scores = scores.to(_exact(q)) * q.shape[-1] ** -0.5
        if slopes is not None:
            scores = scores - slopes[:, None, None, None] * self.distance.abs()
        if self.hidden is None:
            return torch.softmax(scores, -1)
        weights = torch.softmax(scores.masked_fill_(self.hidden, torch.finfo(scores.dtype).min), -1)
        return weights.masked_fill_(self.hidden.all(-1, keepdim=True), 0.0)

    def buckets(self, table: Tensor, like: Tensor) -> Tensor:
        """The row of the table for each query and key, in the shape of `like`."""
        most = len(table) // 2
        return (self.distance.clamp(-most, most) + most).expand_as(like)

    def by_distance(self, x: Tensor, table: Tensor) -> Tensor:
        """`[B, H, N, T, M]` to `[B, H, N, T, R]`: sums of the columns with the same distance."""
        sums = x.new_zeros(*x.shape[:-1], len(table))
        return sums.scatter_add_(-1, self.buckets(table, x), x)


def _parts(q: Tensor, lengths: Tensor | None, sparsity: Sparsity) -> Iterator[_Part]:
    """All queries, a cacheful (on a GPU, a deviceful) at a time."""
    batch, heads, length = q.shape[:3]
    positions, on_cpu = torch.arange(length, device=q.device), q.device.type == "cpu"
    seen_by_all = 0 if sparsity.causal else min(sparsity.n_first, length)
    at_once = max(1, (CPU_SCORES if on_cpu else GPU_SCORES) // max(1, heads * length))
    number = 0
    for row in range(0, batch, 1 if on_cpu else batch):
        rows = slice(row, row + 1 if on_cpu else batch)
        ends = None if lengths is None else lengths[rows].view(-1, 1, 1, 1, 1)
        for start in range(0, seen_by_all, at_once):
            end = min(seen_by_all, start + at_once)
            distance = positions - positions[start:end, None]
            hidden = None if ends is None else (positions >= ends).expand(-1, 1, 1, end - start, -1)
            yield _Part(rows, start, end, None, hidden, distance[None], number := number + 1)
    for blocks in key_blocks(sparsity, length, q.device):
        size = blocks.hidden.shape[1]
        end = min(length, blocks.end)
        n = -(-(end - blocks.start) // size)
        query = blocks.start + torch.arange(n * size, device=q.device).view(n, size, 1)
        index, hidden = blocks.index[:n, None], blocks.hidden[:n]
        distance = index - query
        step = 1 if on_cpu else max(1, GPU_BLOCKS // n)
        for row in range(0, batch, step):
            rows, shown = slice(row, row + step), hidden[None, None]
            if lengths is not None:
                shown = shown | (index >= lengths[rows].view(-1, 1, 1, 1, 1))
            elif blocks.furthest >= length:
                shown = shown | (index >= length)
            yield _Part(rows, blocks.start, end, blocks, shown, distance, number := number + 1)


def _kept(part: _Part, weights: Tensor, seeds: Tensor | None, dropout: float) -> Tensor | None:
    """The dropout factors of the weights: 0 or 1 / (1 - dropout), the same in the backward pass."""
    if seeds is None:
        return None
    kept = hashed_mask(weights, dropout, (seeds + STRIDE * part.number) % 1.0)
    return kept.to(weights.dtype) / (1 - dropout)


def _exact(x: Tensor) -> torch.dtype:
    """The type of sums: float32, or float64 for inputs in float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _zeros(like: Tensor, dtype: torch.dtype | None = None, width: int | None = None) -> Tensor:
    """`[B, H, L, C]` in the order of memory that projections have, `[B, L, H, C]`."""
    b, h, length, c = like.shape
    return like.new_zeros(b, length, h, c if width is None else width, dtype=dtype).transpose(1, 2)


@torch.library.custom_op("dragoman::gathered_attention", mutates_args=())
def _gathered_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    slopes: Tensor | None,
    key_table: Tensor | None,
    value_table: Tensor | None,
    seeds: Tensor | None,
    dropout: float,
    radius: int,
    n_first: int,
    n_random: int,
    random_seed: int,
    causal: bool,
) -> Tensor:
    out = _zeros(q, width=v.shape[-1])
    with torch.autocast(q.device.type, enabled=False):
        for part in _parts(q, lengths, _sparsity(radius, n_first, n_random, random_seed, causal)):
            weights = part.weights(part.queries(q), part.gather(k), slopes, key_table)
            kept = _kept(part, weights, seeds, dropout)
            weights = (weights if kept is None else weights * kept).to(v.dtype)
            mixed = weights @ part.gather(v)
            if value_table is not None:
                mixed = mixed + part.by_distance(weights, value_table) @ value_table
            part.write(out, mixed)
    return out


@_gathered_attention.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> Tensor:
    return _zeros(q, width=v.shape[-1])


@torch.library.custom_op("dragoman::gathered_attention_backward", mutates_args=())
def _gathered_attention_backward(
    grad: Tensor,
    out: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lengths: Tensor | None,
    slopes: Tensor | None,
    key_table: Tensor | None,
    value_table: Tensor | None,
    seeds: Tensor | None,
    dropout: float,
    radius: int,
    n_first: int,
    n_random: int,
    random_seed: int,
    causal: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of queries, keys, values and the two tables; without tables, the last are empty."""
    exact = _exact(q)
    dq, dk, dv = _zeros(q), _zeros(k, exact), _zeros(v, exact)
    tables = [q.new_zeros(0 if x is None else x.shape, dtype=exact) for x in (key_table, value_table)]
    scale = q.shape[-1] ** -0.5
    with torch.autocast(q.device.type, enabled=False):
        for part in _parts(q, lengths, _sparsity(radius, n_first, n_random, random_seed, causal)):
            queries, keys, values, slope = part.queries(q), part.gather(k), part.gather(v), part.queries(grad)
            weights = part.weights(queries, keys, slopes, key_table)
            kept = _kept(part, weights, seeds, dropout)
            used = (weights if kept is None else weights * kept).to(v.dtype)
            part.add(dv, used, slope)
            d_weights = slope @ values.mT
            if value_table is not None:
                d_weights = d_weights + (slope @ value_table.mT).gather(-1, part.buckets(value_table, d_weights))
                sums = part.by_distance(used, value_table)
                tables[1] += (sums.flatten(0, 3).mT @ slope.flatten(0, 3)).to(exact)
            d_weights = d_weights.to(exact) if kept is None else d_weights.to(exact) * kept
            common = (slope.to(exact) * part.queries(out).to(exact)).sum(-1, keepdim=True)
            d_scores = d_weights.sub_(common).mul_(weights).mul_(scale).to(q.dtype)
            d_queries = d_scores @ keys
            if key_table is not None:
                sums = part.by_distance(d_scores, key_table)
                d_queries = d_queries + sums @ key_table
                tables[0] += (sums.flatten(0, 3).mT @ queries.flatten(0, 3)).to(exact)
            part.write(dq, d_queries)
            part.add(dk, d_scores, queries)
    return dq, dk.to(k.dtype), dv.to(v.dtype), tables[0], tables[1]


@_gathered_attention_backward.register_fake
def _(
    grad: Tensor, out: Tensor, q: Tensor, k: Tensor, v: Tensor, lengths: Any, slopes: Any, *rest: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    exact = _exact(q)
    tables = [q.new_zeros(0 if x is None else x.shape, dtype=exact) for x in rest[:2]]
    return _zeros(q), _zeros(k), _zeros(v), tables[0], tables[1]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output, *inputs[:8])
    ctx.settings = inputs[8:]


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    out, *tensors = ctx.saved_tensors
    dq, dk, dv, d_key_table, d_value_table = _gathered_attention_backward(grad, out, *tensors, *ctx.settings)
    *_, key_table, value_table, _ = tensors
    tables = [None if t is None else d.to(t.dtype) for d, t in ((d_key_table, key_table), (d_value_table, value_table))]
    return dq, dk, dv, None, None, *tables, *(None for _ in range(1 + len(ctx.settings)))


_gathered_attention.register_autograd(_backward, setup_context=_save)
