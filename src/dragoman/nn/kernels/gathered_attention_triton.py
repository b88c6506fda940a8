# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for attention to listed keys: one program for a block of queries (or of keys) of one head.

A program loops over its list, gathers the listed rows, and asks the rule which of them each row of the block sees. The
softmax is exact, sums have a fixed order, and there are no atomic additions, so results are bit-reproducible.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def _shown(query, key, radius, n_first, threshold, seed, CAUSAL: tl.constexpr, RANDOM: tl.constexpr):
    """The rule of `Sparsity`, for two positions in the layout of the scores."""
    shown = (tl.abs(query - key) <= radius) | (key < n_first) | (query < n_first)
    if RANDOM:
        low, high = tl.minimum(query, key), tl.maximum(query, key)
        bits = low.to(tl.uint32) * 0x2545F491 + high.to(tl.uint32) * 0x9E3779B1 + seed.to(tl.uint32)
        bits = (bits ^ (bits >> 16)) * 0x7FEB352D
        bits = (bits ^ (bits >> 15)) * 0x846CA68B
        bits = bits ^ (bits >> 16)
        shown = shown | (bits.to(tl.int64) * (high.to(tl.int64) + 1) < threshold)
    if CAUSAL:
        shown = shown & (key <= query)
    return shown


@triton.jit
def _gather(base, rows, stride, columns, valid):
    places = base + rows.to(tl.int64)[:, None] * stride + columns[None, :]
    return tl.load(places, mask=valid[:, None], other=0.0)


@triton.jit
def listed_keys_kernel(
    q_base, k_base, v_base, out_base, lse_base, slopes, lengths, index, ends,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row,
    start, length, radius, n_first, threshold, seed, scale,
    CAUSAL: tl.constexpr, RANDOM: tl.constexpr, ALIBI: tl.constexpr, LENGTHS: tl.constexpr,
    K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Output and log-sum-exp (of scores times log2 e) of a block of queries; outputs are `[B, L, H, K]`."""
    block, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    heads = tl.num_programs(1)
    rows, columns = start + block * TILE + tl.arange(0, TILE), tl.arange(0, K)
    inside = rows < length
    limit = tl.load(lengths + batch) if LENGTHS else length
    q = _gather(q_base + batch * q_batch + head * q_head, rows, q_row, columns, inside)
    top = tl.full([TILE], -1e30, tl.float32)
    total = tl.zeros([TILE], tl.float32)
    mixed = tl.zeros([TILE, K], tl.float32)
    end = tl.load(ends + block + 1)
    for first in range(tl.load(ends + block), end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        keys = tl.load(index + place, mask=place < end, other=2147483647)
        valid = keys < limit
        k = _gather(k_base + batch * k_batch + head * k_head, keys, k_row, columns, valid)
        v = _gather(v_base + batch * v_batch + head * v_head, keys, v_row, columns, valid)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * LOG2E)
        if ALIBI:
            distance = tl.abs(rows[:, None] - keys[None, :]).to(tl.float32)
            scores -= tl.load(slopes + head) * LOG2E * distance
        shown = _shown(rows[:, None], keys[None, :], radius, n_first, threshold, seed, CAUSAL, RANDOM) & valid[None, :]
        scores = tl.where(shown, scores, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.where(shown, tl.exp2(scores - higher[:, None]), 0.0)
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        mixed = mixed * shrink[:, None] + tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        top = higher
    mixed = mixed / tl.where(total > 0, total, 1.0)[:, None]  # a query that sees nothing gives zeros
    out = out_base + ((batch * length + rows)[:, None] * heads + head) * K + columns[None, :]
    tl.store(out, mixed.to(out_base.dtype.element_ty), mask=inside[:, None])
    lse = tl.where(total > 0, top + tl.log2(tl.where(total > 0, total, 1.0)), 0.0)
    tl.store(lse_base + (batch * heads + head) * length + rows, lse, mask=inside)


@triton.jit
def queries_gradient_kernel(
    q_base, k_base, v_base, grad_base, lse_base, along_base, dq_base, slopes, lengths, index, ends,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, g_batch, g_head, g_row,
    start, length, radius, n_first, threshold, seed, scale,
    CAUSAL: tl.constexpr, RANDOM: tl.constexpr, ALIBI: tl.constexpr, LENGTHS: tl.constexpr,
    K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of a block of queries, from its list of keys."""
    block, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    heads = tl.num_programs(1)
    rows, columns = start + block * TILE + tl.arange(0, TILE), tl.arange(0, K)
    inside = rows < length
    limit = tl.load(lengths + batch) if LENGTHS else length
    q = _gather(q_base + batch * q_batch + head * q_head, rows, q_row, columns, inside)
    grad = _gather(grad_base + batch * g_batch + head * g_head, rows, g_row, columns, inside)
    sums = (batch * heads + head) * length + rows
    lse, along = tl.load(lse_base + sums, mask=inside, other=0.0), tl.load(along_base + sums, mask=inside, other=0.0)
    dq = tl.zeros([TILE, K], tl.float32)
    end = tl.load(ends + block + 1)
    for first in range(tl.load(ends + block), end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        keys = tl.load(index + place, mask=place < end, other=2147483647)
        valid = keys < limit
        k = _gather(k_base + batch * k_batch + head * k_head, keys, k_row, columns, valid)
        v = _gather(v_base + batch * v_batch + head * v_head, keys, v_row, columns, valid)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * LOG2E)
        if ALIBI:
            distance = tl.abs(rows[:, None] - keys[None, :]).to(tl.float32)
            scores -= tl.load(slopes + head) * LOG2E * distance
        shown = _shown(rows[:, None], keys[None, :], radius, n_first, threshold, seed, CAUSAL, RANDOM) & valid[None, :]
        weights = tl.exp2(tl.where(shown, scores - lse[:, None], -1e30))
        of_weights = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
        of_scores = (weights * (of_weights - along[:, None])).to(q.dtype)
        dq += tl.dot(of_scores, k, input_precision=PRECISION)
    place = dq_base + ((batch * length + rows)[:, None] * heads + head) * K + columns[None, :]
    tl.store(place, (dq * scale).to(dq_base.dtype.element_ty), mask=inside[:, None])


@triton.jit
def keys_gradient_kernel(
    q_base, k_base, v_base, grad_base, lse_base, along_base, dk_base, dv_base, slopes, lengths, index, ends,
    q_batch, q_head, q_row, k_batch, k_head, k_row, v_batch, v_head, v_row, g_batch, g_head, g_row,
    start, length, radius, n_first, threshold, seed, scale,
    CAUSAL: tl.constexpr, RANDOM: tl.constexpr, ALIBI: tl.constexpr, LENGTHS: tl.constexpr,
    K: tl.constexpr, TILE: tl.constexpr, BLOCK: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradients of a block of keys and values, from its list of queries."""
    block, head, batch = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    heads = tl.num_programs(1)
    keys, columns = start + block * TILE + tl.arange(0, TILE), tl.arange(0, K)
    inside = keys < length
    limit = tl.load(lengths + batch) if LENGTHS else length
    k = _gather(k_base + batch * k_batch + head * k_head, keys, k_row, columns, inside)
    v = _gather(v_base + batch * v_batch + head * v_head, keys, v_row, columns, inside)
    dk = tl.zeros([TILE, K], tl.float32)
    dv = tl.zeros([TILE, K], tl.float32)
    end = tl.load(ends + block + 1)
    for first in range(tl.load(ends + block), end, BLOCK):
        place = first + tl.arange(0, BLOCK)
        rows = tl.load(index + place, mask=place < end, other=2147483647)
        valid = rows < length
        q = _gather(q_base + batch * q_batch + head * q_head, rows, q_row, columns, valid)
        grad = _gather(grad_base + batch * g_batch + head * g_head, rows, g_row, columns, valid)
        sums = (batch * heads + head) * length + rows
        lse, along = tl.load(lse_base + sums, mask=valid, other=0.0), tl.load(along_base + sums, mask=valid, other=0.0)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * (scale * LOG2E)  # [keys, queries]
        if ALIBI:
            distance = tl.abs(rows[None, :] - keys[:, None]).to(tl.float32)
            scores -= tl.load(slopes + head) * LOG2E * distance
        shown = _shown(rows[None, :], keys[:, None], radius, n_first, threshold, seed, CAUSAL, RANDOM)
        shown = shown & valid[None, :] & (keys < limit)[:, None]
        weights = tl.exp2(tl.where(shown, scores - lse[None, :], -1e30))
        dv += tl.dot(weights.to(grad.dtype), grad, input_precision=PRECISION)
        of_weights = tl.dot(v, tl.trans(grad), input_precision=PRECISION)
        of_scores = (weights * (of_weights - along[None, :])).to(q.dtype)
        dk += tl.dot(of_scores, q, input_precision=PRECISION)
    place = ((batch * length + keys)[:, None] * heads + head) * K + columns[None, :]
    tl.store(dk_base + place, (dk * scale).to(dk_base.dtype.element_ty), mask=inside[:, None])
    tl.store(dv_base + place, dv.to(dv_base.dtype.element_ty), mask=inside[:, None])
