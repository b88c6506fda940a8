# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for attention within many short sentences, packed end to end.

A program handles one tile of rows of one head (whole sentences, where they fit; see `joint_tiles`) and finds the rows
of the other side that belong to it from the sentence bounds. Usually that is the other side's tile with the same index,
and the two are computed at once; otherwise the program loops over those rows in blocks. Tables of tiles are sized for
the worst case, and launching empty programs for all of them would be slow: a few programs of a second kernel loop over
the tiles beyond the usual number, and mostly find none. (The same loop in the first kernel would cost it registers.)
The softmax is exact, sums have a fixed order, and there are no atomic additions, so results are bit-reproducible.
A tile may begin and end anywhere: boundaries affect the speed, never the result.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)
FAR = tl.constexpr(2147483647)


@triton.jit
def _range(low, high):
    """The span of all non-empty [low, high); empty if all are empty."""
    some = high > low
    return tl.min(tl.where(some, low, FAR), 0), tl.max(tl.where(some, high, 0), 0)


@triton.jit
def _beyond(low, high, first, last):
    """Which of these [low, high) are not empty and extend beyond [first, last)."""
    return (high > low) & ((low < first) | (high > last))


@triton.jit
def _shown(rows, keys, low, high, CAUSAL: tl.constexpr):
    """Which queries see which keys; all four have the layout of the scores."""
    shown = (keys >= low) & (keys < high)
    if CAUSAL:
        shown = shown & (keys <= rows)
    return shown


@triton.jit
def _load(base, rows, stride, columns, limit):
    places = base + rows.to(tl.int64)[:, None] * stride + columns[None, :]
    return tl.load(places, mask=(rows < limit)[:, None], other=0.0)


@triton.jit
def attention_kernel(
    q_base, k_base, v_base, out_base, lse_base, q_tiles, k_tiles, low_base, high_base,
    n_queries, q_stride, kv_stride, scale,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log-sum-exp (of scores times log2 e) of one tile of queries and one head."""
    _attend(
        tl.program_id(1), q_base, k_base, v_base, out_base, lse_base, q_tiles, k_tiles, low_base, high_base,
        n_queries, q_stride, kv_stride, scale, CAUSAL, HEADS, K, TILE, BLOCK, PRECISION,
    )  # fmt: skip


@triton.jit
def other_tiles_kernel(
    q_base, k_base, v_base, out_base, lse_base, q_tiles, k_tiles, low_base, high_base,
    n_queries, q_stride, kv_stride, scale, begin, end,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The same for the tiles from `begin` to `end`, in turns; usually all of them are empty."""
    if tl.load(q_tiles + begin) >= tl.load(q_tiles + end):
        return
    for tile in range(begin + tl.program_id(1), end, tl.num_programs(1)):
        _attend(
            tile, q_base, k_base, v_base, out_base, lse_base, q_tiles, k_tiles, low_base, high_base,
            n_queries, q_stride, kv_stride, scale, CAUSAL, HEADS, K, TILE, BLOCK, PRECISION,
        )  # fmt: skip


@triton.jit
def _attend(
    tile, q_base, k_base, v_base, out_base, lse_base, q_tiles, k_tiles, low_base, high_base,
    n_queries, q_stride, kv_stride, scale,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    first, last = tl.load(q_tiles + tile), tl.load(q_tiles + tile + 1)
    k_first, k_last = tl.load(k_tiles + tile), tl.load(k_tiles + tile + 1)
    if first < last:
        rows, keys, columns = first + tl.arange(0, TILE), k_first + tl.arange(0, TILE), head * K + tl.arange(0, K)
        low = tl.load(low_base + rows, mask=rows < last, other=0)
        high = tl.load(high_base + rows, mask=rows < last, other=0)
        q = _load(q_base, rows, q_stride, columns, last)
        k = _load(k_base, keys, kv_stride, columns, k_last)  # starts before it is known whether one tile suffices
        v = _load(v_base, keys, kv_stride, columns, k_last)
        if tl.max(_beyond(low, high, k_first, k_last).to(tl.int32), 0) == 0:
            scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * LOG2E)
            shown = _shown(rows[:, None], keys[None, :], low[:, None], high[:, None], CAUSAL)
            scores = tl.where(shown, scores, -1e30)
            top = tl.max(scores, 1)
            weights = tl.where(shown, tl.exp2(scores - top[:, None]), 0.0)
            total = tl.sum(weights, 1)
            mixed = tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        else:
            top, total, mixed = _in_blocks(
                q, k_base, v_base, rows, low, high, last, columns, kv_stride, scale,
                CAUSAL, K, TILE, BLOCK, PRECISION,
            )  # fmt: skip
        mixed = mixed / tl.where(total > 0, total, 1.0)[:, None]  # a query that sees nothing gives zeros
        out = out_base + rows.to(tl.int64)[:, None] * (HEADS * K) + columns[None, :]
        tl.store(out, mixed.to(out_base.dtype.element_ty), mask=(rows < last)[:, None])
        lse = tl.where(total > 0, top + tl.log2(total), 0.0)
        tl.store(lse_base + head * n_queries + rows, lse, mask=rows < last)


@triton.jit
def _in_blocks(
    q, k_base, v_base, rows, low, high, last, columns, kv_stride, scale,
    CAUSAL: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The softmax over keys that lie in several tiles: highest scores, sums of weights, and weighted values."""
    begin, end = _range(low, high)
    if CAUSAL:
        end = tl.minimum(end, last)
    top = tl.full([TILE], -1e30, tl.float32)
    total = tl.zeros([TILE], tl.float32)
    mixed = tl.zeros([TILE, K], tl.float32)
    for start in range(begin, end, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        k = _load(k_base, keys, kv_stride, columns, end)
        v = _load(v_base, keys, kv_stride, columns, end)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * LOG2E)
        shown = _shown(rows[:, None], keys[None, :], low[:, None], high[:, None], CAUSAL)
        scores = tl.where(shown, scores, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.where(shown, tl.exp2(scores - higher[:, None]), 0.0)
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        top = higher
    return top, total, mixed


@triton.jit
def attention_backward_kernel(
    q_base, k_base, v_base, out_base, grad_base, lse_base, dq_base, dk_base, dv_base,
    q_tiles, k_tiles, low_base, high_base, first_base, final_base,
    n_queries, q_stride, kv_stride, scale,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients of a tile of queries and a tile of keys, computed at once where they see only each other."""
    _gradients(
        tl.program_id(1), q_base, k_base, v_base, out_base, grad_base, lse_base, dq_base, dk_base, dv_base,
        q_tiles, k_tiles, low_base, high_base, first_base, final_base,
        n_queries, q_stride, kv_stride, scale, CAUSAL, HEADS, K, TILE, BLOCK, PRECISION,
    )  # fmt: skip


@triton.jit
def other_tiles_backward_kernel(
    q_base, k_base, v_base, out_base, grad_base, lse_base, dq_base, dk_base, dv_base,
    q_tiles, k_tiles, low_base, high_base, first_base, final_base,
    n_queries, q_stride, kv_stride, scale, begin, end,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The same for the tiles from `begin` to `end`, in turns; usually all of them are empty."""
    queries_end = tl.load(q_tiles + begin) >= tl.load(q_tiles + end)
    if queries_end & (tl.load(k_tiles + begin) >= tl.load(k_tiles + end)):
        return
    for tile in range(begin + tl.program_id(1), end, tl.num_programs(1)):
        _gradients(
            tile, q_base, k_base, v_base, out_base, grad_base, lse_base, dq_base, dk_base, dv_base,
            q_tiles, k_tiles, low_base, high_base, first_base, final_base,
            n_queries, q_stride, kv_stride, scale, CAUSAL, HEADS, K, TILE, BLOCK, PRECISION,
        )  # fmt: skip


@triton.jit
def _gradients(
    tile, q_base, k_base, v_base, out_base, grad_base, lse_base, dq_base, dk_base, dv_base,
    q_tiles, k_tiles, low_base, high_base, first_base, final_base,
    n_queries, q_stride, kv_stride, scale,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    q_first, q_last = tl.load(q_tiles + tile), tl.load(q_tiles + tile + 1)
    k_first, k_last = tl.load(k_tiles + tile), tl.load(k_tiles + tile + 1)
    if (q_first < q_last) | (k_first < k_last):
        rows, keys = q_first + tl.arange(0, TILE), k_first + tl.arange(0, TILE)
        low = tl.load(low_base + rows, mask=rows < q_last, other=0)
        high = tl.load(high_base + rows, mask=rows < q_last, other=0)
        seeing = tl.load(first_base + keys, mask=keys < k_last, other=0)
        seeing_end = tl.load(final_base + keys, mask=keys < k_last, other=0)
        apart = _beyond(low, high, k_first, k_last) | _beyond(seeing, seeing_end, q_first, q_last)
        if tl.max(apart.to(tl.int32), 0) == 0:
            columns = head * K + tl.arange(0, K)
            q = _load(q_base, rows, q_stride, columns, q_last)
            k = _load(k_base, keys, kv_stride, columns, k_last)
            v = _load(v_base, keys, kv_stride, columns, k_last)
            grad = _load(grad_base, rows, HEADS * K, columns, q_last)
            lse = tl.load(lse_base + head * n_queries + rows, mask=rows < q_last, other=0.0)
            scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * LOG2E)
            shown = _shown(rows[:, None], keys[None, :], low[:, None], high[:, None], CAUSAL)
            weights = tl.where(shown, tl.exp2(scores - lse[:, None]), 0.0)
            of_weights = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
            along = tl.sum(weights * of_weights, 1)
            of_scores = (weights * (of_weights - along[:, None])).to(q.dtype)
            dv = tl.dot(tl.trans(weights.to(grad.dtype)), grad, input_precision=PRECISION)
            dk = tl.dot(tl.trans(of_scores), q, input_precision=PRECISION)
            dq = tl.dot(of_scores, k, input_precision=PRECISION)
            place = rows.to(tl.int64)[:, None] * q_stride + columns[None, :]
            tl.store(dq_base + place, (dq * scale).to(dq_base.dtype.element_ty), mask=(rows < q_last)[:, None])
            place = keys.to(tl.int64)[:, None] * kv_stride + columns[None, :]
            tl.store(dk_base + place, (dk * scale).to(dk_base.dtype.element_ty), mask=(keys < k_last)[:, None])
            tl.store(dv_base + place, dv.to(dv_base.dtype.element_ty), mask=(keys < k_last)[:, None])
        else:
            begin, end = _range(low, high)
            _queries_gradient(
                q_base, k_base, v_base, out_base, grad_base, lse_base, dq_base, low_base, high_base,
                n_queries, q_stride, kv_stride, scale, head, q_first, q_last, begin, end,
                CAUSAL, HEADS, K, TILE, BLOCK, PRECISION,
            )  # fmt: skip
            begin, end = _range(seeing, seeing_end)
            _keys_gradient(
                q_base, k_base, v_base, out_base, grad_base, lse_base, dk_base, dv_base, low_base, high_base,
                n_queries, q_stride, kv_stride, scale, head, k_first, k_last, begin, end,
                CAUSAL, HEADS, K, TILE, BLOCK, PRECISION,
            )  # fmt: skip


@triton.jit
def _queries_gradient(
    q_base, k_base, v_base, out_base, grad_base, lse_base, dq_base, low_base, high_base,
    n_queries, q_stride, kv_stride, scale, head, first, last, begin, end,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    if first < last:
        rows, columns = first + tl.arange(0, TILE), head * K + tl.arange(0, K)
        low = tl.load(low_base + rows, mask=rows < last, other=0)
        high = tl.load(high_base + rows, mask=rows < last, other=0)
        if CAUSAL:
            end = tl.minimum(end, last)
        q = _load(q_base, rows, q_stride, columns, last)
        grad = _load(grad_base, rows, HEADS * K, columns, last)
        out = _load(out_base, rows, HEADS * K, columns, last)
        lse = tl.load(lse_base + head * n_queries + rows, mask=rows < last, other=0.0)
        along = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
        dq = tl.zeros([TILE, K], tl.float32)
        for start in range(begin, end, BLOCK):
            keys = start + tl.arange(0, BLOCK)
            k = _load(k_base, keys, kv_stride, columns, end)
            v = _load(v_base, keys, kv_stride, columns, end)
            scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * LOG2E)
            shown = _shown(rows[:, None], keys[None, :], low[:, None], high[:, None], CAUSAL)
            weights = tl.where(shown, tl.exp2(scores - lse[:, None]), 0.0)
            of_weights = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
            of_scores = (weights * (of_weights - along[:, None])).to(q.dtype)
            dq += tl.dot(of_scores, k, input_precision=PRECISION)
        place = dq_base + rows.to(tl.int64)[:, None] * q_stride + columns[None, :]
        tl.store(place, (dq * scale).to(dq_base.dtype.element_ty), mask=(rows < last)[:, None])


@triton.jit
def _keys_gradient(
    q_base, k_base, v_base, out_base, grad_base, lse_base, dk_base, dv_base, low_base, high_base,
    n_queries, q_stride, kv_stride, scale, head, first, last, begin, end,
    CAUSAL: tl.constexpr, HEADS: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    if first < last:
        keys, columns = first + tl.arange(0, TILE), head * K + tl.arange(0, K)
        if CAUSAL:
            begin = tl.maximum(begin, first)
        k = _load(k_base, keys, kv_stride, columns, last)
        v = _load(v_base, keys, kv_stride, columns, last)
        dk = tl.zeros([TILE, K], tl.float32)
        dv = tl.zeros([TILE, K], tl.float32)
        for start in range(begin, end, BLOCK):
            rows = start + tl.arange(0, BLOCK)
            q = _load(q_base, rows, q_stride, columns, end)
            grad = _load(grad_base, rows, HEADS * K, columns, end)
            out = _load(out_base, rows, HEADS * K, columns, end)
            lse = tl.load(lse_base + head * n_queries + rows, mask=rows < end, other=0.0)
            low = tl.load(low_base + rows, mask=rows < end, other=0)
            high = tl.load(high_base + rows, mask=rows < end, other=0)
            along = tl.sum(out.to(tl.float32) * grad.to(tl.float32), 1)
            scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * (scale * LOG2E)  # [keys, queries]
            shown = _shown(rows[None, :], keys[:, None], low[None, :], high[None, :], CAUSAL)
            weights = tl.where(shown, tl.exp2(scores - lse[None, :]), 0.0)
            dv += tl.dot(weights.to(grad.dtype), grad, input_precision=PRECISION)
            of_weights = tl.dot(v, tl.trans(grad), input_precision=PRECISION)
            of_scores = (weights * (of_weights - along[None, :])).to(q.dtype)
            dk += tl.dot(of_scores, q, input_precision=PRECISION)
        inside = (keys < last)[:, None]
        place = keys.to(tl.int64)[:, None] * kv_stride + columns[None, :]
        tl.store(dk_base + place, (dk * scale).to(dk_base.dtype.element_ty), mask=inside)
        tl.store(dv_base + place, dv.to(dv_base.dtype.element_ty), mask=inside)
