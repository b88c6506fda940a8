"""The kernels of `TritonKernels`. Integers that vary between batches are not specialized."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,misc,untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

from dragoman.search.constraints.token_bytes import NOTHING, SILENT
from dragoman.text.special_tokens import BOS, EOS, PAD

_PAD: tl.constexpr = tl.constexpr(PAD)
_BOS: tl.constexpr = tl.constexpr(BOS)
_EOS: tl.constexpr = tl.constexpr(EOS)
_NOTHING: tl.constexpr = tl.constexpr(NOTHING)
_SILENT: tl.constexpr = tl.constexpr(SILENT)


@triton.jit(do_not_specialize=["rows", "W"])
def embed_kernel(out, table, positions, history, position, scale, rows, W, D, BLOCK: tl.constexpr):
    """One row per program."""
    row = tl.program_id(0)
    at = tl.load(position + row // W)
    token = tl.load(history + at * rows + row).to(tl.int64)
    column = tl.arange(0, BLOCK)
    real = column < D
    x = tl.load(table + token * D + column, mask=real, other=0.0).to(tl.float32) * scale
    x += tl.load(positions + at * D + column, mask=real, other=0.0)
    tl.store(out + row * D + column, x.to(out.dtype.element_ty), mask=real)


@triton.jit
def add_norm_kernel(total, out, x, y, weight, bias, eps, D, ADD: tl.constexpr, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    """One row per program; KEEP also writes the sum, which is the residual stream with pre-norm."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    real = column < D
    h = tl.load(x + row * D + column, mask=real, other=0.0).to(tl.float32)
    if ADD:
        h += tl.load(y + row * D + column, mask=real, other=0.0).to(tl.float32)
        h = h.to(x.dtype.element_ty).to(tl.float32)  # as the sum is stored, so that all ways give the same numbers
    if KEEP:
        tl.store(total + row * D + column, h.to(total.dtype.element_ty), mask=real)
    mean = tl.sum(h, 0) / D
    centered = tl.where(real, h - mean, 0.0)
    variance = tl.sum(centered * centered, 0) / D
    h = centered * tl.rsqrt(variance + eps) * tl.load(weight + column, mask=real, other=0.0).to(tl.float32)
    h += tl.load(bias + column, mask=real, other=0.0).to(tl.float32)
    tl.store(out + row * D + column, h.to(out.dtype.element_ty), mask=real)


@triton.jit
def few_rows_kernel(
    out, stream, x, y, norm_weight, norm_bias, eps, weight, bias, N, D,
    ROWS: tl.constexpr, ADD: tl.constexpr, NORM: tl.constexpr, PRE: tl.constexpr, POST: tl.constexpr,
    BIAS: tl.constexpr, RELU: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """act(norm(x + y) W^T + b), a block of columns per program; the first writes x + y, or its norm, as the stream.

    With so few rows all the time goes into reading W, which is loaded before anything else.
    """
    program = tl.program_id(0)
    column, d = program * BLOCK + tl.arange(0, BLOCK), tl.arange(0, WIDE)
    there, real = column < N, d < D
    w = tl.load(weight + column[:, None].to(tl.int64) * D + d[None, :], mask=there[:, None] & real[None, :], other=0.0)
    for row in tl.static_range(ROWS):
        h = tl.load(x + row * D + d, mask=real, other=0.0).to(tl.float32)
        if ADD:
            h += tl.load(y + row * D + d, mask=real, other=0.0).to(tl.float32)
            h = h.to(x.dtype.element_ty).to(tl.float32)  # as the sum is stored, so that all ways give the same numbers
        if PRE:
            tl.store(stream + row * D + d, h.to(x.dtype.element_ty), mask=real & (program == 0))
        if NORM:
            centered = tl.where(real, h - tl.sum(h, 0) / D, 0.0)
            h = centered * tl.rsqrt(tl.sum(centered * centered, 0) / D + eps)
            h = h * tl.load(norm_weight + d, mask=real, other=0.0).to(tl.float32)
            h += tl.load(norm_bias + d, mask=real, other=0.0).to(tl.float32)
            h = h.to(x.dtype.element_ty).to(tl.float32)
        if POST:
            tl.store(stream + row * D + d, h.to(x.dtype.element_ty), mask=real & (program == 0))
        total = tl.sum(w.to(tl.float32) * h[None, :], 1)
        if BIAS:
            total += tl.load(bias + column, mask=there, other=0.0).to(tl.float32)
        if RELU:
            total = tl.maximum(total, 0.0)
        tl.store(out + row * N + column, total.to(out.dtype.element_ty), mask=there)


@triton.jit(do_not_specialize=["rows", "W"])
def attend_own_kernel(
    out, qkv, keys, values, lineage, position, done, rows, steps, scale, W,
    BEAMS: tl.constexpr, H: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One head of a row per program: store its key and value, then attend to them and to its ancestors'."""
    head, row = tl.program_id(0), tl.program_id(1)  # heads of a row are adjacent in memory
    sentence = row // W
    at = tl.load(position + sentence)
    ck, cv = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V)
    mk, mv = ck < K, cv < V
    mine = qkv + row * (2 * H * K + H * V)
    q = tl.load(mine + head * K + ck, mask=mk, other=0.0).to(tl.float32) * scale
    k = tl.load(mine + H * K + head * K + ck, mask=mk, other=0.0)
    v = tl.load(mine + 2 * H * K + head * V + cv, mask=mv, other=0.0)
    here = at.to(tl.int64) * rows + row
    tl.store(keys + here * (H * K) + head * K + ck, k, mask=mk)
    tl.store(values + here * (H * V) + head * V + cv, v, mask=mv)
    top = tl.sum(q * k.to(tl.float32), 0)
    mass = top * 0.0 + 1.0
    mixed = v.to(tl.float32)
    past = tl.where(tl.load(done + sentence) != 0, 0, at)
    for start in range(0, past, BLOCK):
        p = start + tl.arange(0, BLOCK)
        seen = p < past
        slot = row + tl.zeros([BLOCK], tl.int32)
        if BEAMS:
            slot = sentence * W + tl.load(lineage + row * steps + p, mask=seen, other=0)
        there = p.to(tl.int64) * rows + slot
        kk = tl.load(
            keys + there[:, None] * (H * K) + head * K + ck[None, :], mask=seen[:, None] & mk[None, :], other=0.0
        )
        vv = tl.load(
            values + there[:, None] * (H * V) + head * V + cv[None, :], mask=seen[:, None] & mv[None, :], other=0.0
        )
        score = tl.where(seen, tl.sum(kk.to(tl.float32) * q[None, :], 1), float("-inf"))
        higher = tl.maximum(top, tl.max(score, 0))
        fade = tl.exp(top - higher)
        weight = tl.exp(score - higher)
        mass = mass * fade + tl.sum(weight, 0)
        mixed = mixed * fade + tl.sum(weight[:, None] * vv.to(tl.float32), 0)
        top = higher
    tl.store(out + row * (H * V) + head * V + cv, (mixed / mass).to(out.dtype.element_ty), mask=mv)


@triton.jit(do_not_specialize=["W"])
def attend_source_kernel(
    out, query, source, length, done, query_stride, room, width, first, scale, W,
    H: tl.constexpr, K: tl.constexpr, V: tl.constexpr, BLOCK_W: tl.constexpr,
    BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One head of a sentence per program, with all of its W queries, or a block of them: the source is read once.

    Queries are `query_stride` apart; keys, then values, start at `first` in rows of `width`, `room` rows a sentence.
    """
    head, sentence = tl.program_id(0), tl.program_id(1)
    beam = tl.program_id(2) * BLOCK_W + tl.arange(0, BLOCK_W)
    ck, cv = tl.arange(0, BLOCK_K), tl.arange(0, BLOCK_V)
    mk, mv = ck < K, cv < V
    row = sentence * W + beam
    q = tl.load(
        query + row[:, None] * query_stride + head * K + ck[None, :], mask=(beam < W)[:, None] & mk[None, :], other=0.0
    )
    n = tl.where(tl.load(done + sentence) != 0, 1, tl.load(length + sentence))
    top = tl.full([BLOCK_W], -1e30, tl.float32)
    mass = tl.zeros([BLOCK_W], tl.float32)
    mixed = tl.zeros([BLOCK_W, BLOCK_V], tl.float32)
    base = source + sentence.to(tl.int64) * room * width + first
    for start in range(0, n, BLOCK):
        s = start + tl.arange(0, BLOCK)
        seen = s < n
        kk = tl.load(base + s[:, None] * width + head * K + ck[None, :], mask=seen[:, None] & mk[None, :], other=0.0)
        vv = tl.load(
            base + s[:, None] * width + H * K + head * V + cv[None, :], mask=seen[:, None] & mv[None, :], other=0.0
        )
        score = tl.dot(q, tl.trans(kk), input_precision="ieee") * scale
        score = tl.where(seen[None, :], score, float("-inf"))
        higher = tl.maximum(top, tl.max(score, 1))
        fade = tl.exp(top - higher)
        weight = tl.exp(score - higher[:, None])
        mass = mass * fade + tl.sum(weight, 1)
        mixed = mixed * fade[:, None] + tl.dot(weight.to(vv.dtype), vv, input_precision="ieee")
        top = higher
    tl.store(
        out + row[:, None] * (H * V) + head * V + cv[None, :],
        (mixed / mass[:, None]).to(out.dtype.element_ty),
        mask=(beam < W)[:, None] & mv[None, :],
    )


@triton.jit(do_not_specialize=["steps"])
def likeliest_kernel(
    values, tokens, tops, masses, logits, position, done, min_length, prefixes, steps, stride, vocabulary,
    SUM: tl.constexpr, PICK: tl.constexpr, FORCED: tl.constexpr, W: tl.constexpr, BLOCKS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of a row's logits per program: its part of the softmax, and its W likeliest allowed tokens.

    SUM and PICK choose between the two: tokens are forbidden in between, without changing probabilities.
    """
    row, block = tl.program_id(0), tl.program_id(1)
    sentence = row // W
    if tl.load(done + sentence) == 0:
        column = block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(logits + row.to(tl.int64) * stride + column, mask=column < vocabulary, other=float("-inf"))
        if SUM:
            top = tl.max(x, 0)
            tl.store(tops + row * BLOCKS + block, top)
            tl.store(masses + row * BLOCKS + block, tl.sum(tl.exp(x - top), 0))
        if PICK:
            at = tl.load(position + sentence)
            forbidden = (column == _PAD) | (column == _BOS)
            forbidden |= (column == _EOS) & (at < tl.load(min_length))
            if FORCED:
                forced = tl.load(prefixes + sentence * steps + at)
                forbidden = tl.where(forced == _PAD, forbidden, column != forced)
            x = tl.where(forbidden, float("-inf"), x)
            for i in range(W):
                best, where = tl.max(x, 0, return_indices=True)
                tl.store(values + (row * BLOCKS + block) * W + i, best)
                token = tl.minimum(block * BLOCK + where, vocabulary - 1)  # of NaN, any might win
                tl.store(tokens + (row * BLOCKS + block) * W + i, token)
                x = tl.where(column == block * BLOCK + where, float("-inf"), x)


@triton.jit
def follow_symbol(
    state, length, met, reached, symbol, group, real, delta, lengths, G, COUNT: tl.constexpr, SYMBOLS: tl.constexpr
):
    """The progress of a hypothesis after one more symbol."""
    state = tl.load(delta + state * SYMBOLS + symbol).to(tl.int64)
    written = symbol != _NOTHING
    length += written.to(tl.int64)
    if COUNT:
        size, end = tl.load(lengths + state * G + group, mask=real, other=0), length - 1
        counts = (size > 0) & written & (end - size >= reached)
        met += counts.to(tl.int64)
        reached = tl.where(counts, end, reached)
    return state, length, met, reached


@triton.jit
def follow_kernel(
    new_state, new_last, new_length, new_met, new_reached, state, last, length, met, reached, tokens,
    delta, lengths, stream, first, final, between, width, G,
    COUNT: tl.constexpr, BLOCK_G: tl.constexpr, SYMBOLS: tl.constexpr, KINDS: tl.constexpr,
):  # fmt: skip
    """One hypothesis per program: the symbols of its next token, one after the other."""
    row = tl.program_id(0)
    group = tl.arange(0, BLOCK_G)
    real = group < G
    token, kind = tl.load(tokens + row), tl.load(last + row)
    here, n = tl.load(state + row), tl.load(length + row)
    count = tl.load(met + row * G + group, mask=real, other=0)
    end = tl.load(reached + row * G + group, mask=real, other=0)
    symbol = tl.load(between + kind * KINDS + tl.load(first + token))
    here, n, count, end = follow_symbol(here, n, count, end, symbol, group, real, delta, lengths, G, COUNT, SYMBOLS)
    column = token * width
    symbol = tl.load(stream + column)
    while symbol != _NOTHING:
        here, n, count, end = follow_symbol(here, n, count, end, symbol, group, real, delta, lengths, G, COUNT, SYMBOLS)
        column += 1
        symbol = tl.load(stream + column)
    after = tl.load(final + token)
    tl.store(new_state + row, here)
    tl.store(new_last + row, tl.where(after == _SILENT, kind, after))
    tl.store(new_length + row, n)
    if COUNT:
        tl.store(new_met + row * G + group, count, mask=real)
        tl.store(new_reached + row * G + group, end, mask=real)


@triton.jit(do_not_specialize=["rows"])
def select_kernel(
    values, tokens, tops, masses, logits, stride, score, finished, length, lineage, history, position, limit, done,
    n_best, normalizer, rows, steps,
    FORBIDS: tl.constexpr, W: tl.constexpr, SLOTS: tl.constexpr, BLOCKS: tl.constexpr, WIDE: tl.constexpr,
    CANDIDATES: tl.constexpr, PAST: tl.constexpr,
):  # fmt: skip
    """One sentence per program: a step of `Search`. Finished hypotheses are candidates that always win their slot."""
    sentence = tl.program_id(0)
    if tl.load(done + sentence) == 0:
        at, max_tokens = tl.load(position + sentence), tl.load(limit + sentence)
        slot = tl.arange(0, SLOTS)
        mine = slot < W
        row = sentence * W + slot
        block = tl.arange(0, WIDE)
        there = mine[:, None] & (block < BLOCKS)[None, :]
        part = tl.load(tops + row[:, None] * BLOCKS + block[None, :], mask=there, other=float("-inf"))
        mass = tl.load(masses + row[:, None] * BLOCKS + block[None, :], mask=there, other=0.0)
        top = tl.where(mine, tl.max(part, 1), 0.0)
        total = top + tl.log(tl.where(mine, tl.sum(mass * tl.exp(part - top[:, None]), 1), 1.0))

        old = tl.load(score + row, mask=mine, other=float("-inf"))
        held = tl.load(finished + row, mask=mine, other=0) != 0
        c = tl.arange(0, CANDIDATES)
        there = mine[:, None] & (c < BLOCKS * W)[None, :]
        gain = tl.load(values + row[:, None] * (BLOCKS * W) + c[None, :], mask=there, other=float("-inf"))
        first = (c == 0)[None, :]
        full = at >= max_tokens
        ending = full & mine  # rows that can only end
        if FORBIDS:
            ending |= tl.max(gain, 1) == float("-inf")  # no other token is left
            end = tl.load(logits + row.to(tl.int64) * stride + _EOS, mask=mine, other=float("-inf"))
            gain = tl.where(ending[:, None], tl.where(first, end[:, None], float("-inf")), gain)
        elif full:
            end = tl.load(logits + row.to(tl.int64) * stride + _EOS, mask=mine, other=float("-inf"))
            gain = tl.where(first, end[:, None], float("-inf"))
        found = tl.where(mine[:, None], old[:, None] + gain - total[:, None], float("-inf"))
        found = tl.where(held[:, None], tl.where(first, float("inf"), float("-inf")), found)
        found = tl.where(there, found, float("-inf"))

        flat = tl.reshape(found, [SLOTS * CANDIDATES])
        index = tl.arange(0, SLOTS * CANDIDATES)
        best = tl.full([SLOTS], float("-inf"), tl.float32)
        chosen = tl.zeros([SLOTS], tl.int32)
        for i in range(W):
            value, where = tl.max(flat, 0, return_indices=True)
            best = tl.where(slot == i, value, best)
            chosen = tl.where(slot == i, where, chosen)
            flat = tl.where(index == where, float("-inf"), flat)

        parent = chosen // CANDIDATES
        # Where no candidate is left, the first one repeats; the parent of an empty slot is arbitrary.
        source = sentence * W + parent
        held = (tl.load(finished + source, mask=mine, other=0) != 0) & (best == float("inf"))
        new = tl.where(held, tl.load(score + source, mask=mine, other=0.0), best)
        token = tl.load(tokens + source * (BLOCKS * W) + chosen % CANDIDATES, mask=mine, other=0)
        ended = tl.sum((ending[None, :] & (parent[:, None] == slot[None, :])).to(tl.int32), 1) != 0
        token = tl.where(held | ended, _EOS, token)
        ends = mine & (held == 0) & (token == _EOS) & (new > float("-inf"))
        tokens_so_far = tl.where(ends, at + 1, tl.load(length + source, mask=mine, other=0))
        over = held | ends

        hope = tl.max(tl.where(mine & (over == 0), new, float("-inf")), 0)
        divisor = tl.maximum(tl.load(normalizer + max_tokens + 1), tl.load(normalizer + tl.minimum(at + 2, steps + 1)))
        final = new / tl.load(normalizer + tokens_so_far, mask=mine, other=1.0)
        beaten = tl.sum((mine & over & (final >= hope / divisor)).to(tl.int32), 0)
        decided = full | (beaten >= tl.load(n_best)) | (hope == float("-inf"))

        tl.debug_barrier()  # all old values are read before any is overwritten
        tl.store(score + row, new, mask=mine)
        tl.store(finished + row, over.to(tl.int32), mask=mine)
        tl.store(length + row, tokens_so_far, mask=mine)
        tl.store(history + (at + 1) * rows + row, token, mask=mine)
        if W > 1:
            for start in range(0, at, PAST):
                p = start + tl.arange(0, PAST)
                real = mine[:, None] & (p < at)[None, :]
                line = tl.load(lineage + source[:, None] * steps + p[None, :], mask=real, other=0)
                tl.debug_barrier()
                tl.store(lineage + row[:, None] * steps + p[None, :], line, mask=real)
                tl.debug_barrier()
            tl.store(lineage + row * steps + at, parent, mask=mine)
        if decided:
            tl.store(done + sentence, 1)
        else:
            tl.store(position + sentence, at + 1)
