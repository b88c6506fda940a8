# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""A Triton kernel for the loss over the vocabulary; it overwrites the logits with the gradient."""

from __future__ import annotations

import triton
import triton.language as tl

from dragoman.nn.kernels.packed_attention_triton import LOG2E

LN2 = tl.constexpr(0.6931471805599453)
HIDDEN = tl.constexpr(-1e30)


@triton.jit
def cross_entropy_kernel(
    logits_base, labels, smoothed, plain, stride, vocabulary, pad, smoothing,
    GRADIENT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Both losses of one row; its logits become p - q in place. Rows whose label is `pad` count nothing.

    `stride`, a multiple of 64, bounds what is loaded, so that loads are wide; `vocabulary` bounds what counts. Blocks
    inside the vocabulary are processed four at a time without masks: exponentials are most of the work.
    """
    row = tl.program_id(0).to(tl.int64)
    base = logits_base + row * stride
    label = tl.load(labels + row)
    columns = tl.arange(0, BLOCK)
    if label == pad:
        tl.store(smoothed + row, 0.0)
        tl.store(plain + row, 0.0)
        if GRADIENT:
            for start in range(0, stride, BLOCK):
                nothing = tl.zeros([BLOCK], logits_base.dtype.element_ty)
                tl.store(base + start + columns, nothing, mask=start + columns < stride)
    else:
        of_label = tl.load(base + label).to(tl.float32)  # before anything is overwritten
        top = tl.full([BLOCK], HIDDEN, tl.float32)
        total = tl.zeros([BLOCK], tl.float32)
        added = tl.zeros([BLOCK], tl.float32)
        whole = vocabulary // (4 * BLOCK) * (4 * BLOCK)
        for start in range(0, whole, 4 * BLOCK):
            a = tl.load(base + start + columns).to(tl.float32)
            b = tl.load(base + start + BLOCK + columns).to(tl.float32)
            c = tl.load(base + start + 2 * BLOCK + columns).to(tl.float32)
            d = tl.load(base + start + 3 * BLOCK + columns).to(tl.float32)
            added += (a + b) + (c + d)
            higher = tl.maximum(top, tl.maximum(tl.maximum(a, b), tl.maximum(c, d)) * LOG2E)
            new = tl.exp2(a * LOG2E - higher) + tl.exp2(b * LOG2E - higher)
            new += tl.exp2(c * LOG2E - higher) + tl.exp2(d * LOG2E - higher)
            total = total * tl.exp2(top - higher) + new
            top = higher
        for start in range(whole, vocabulary, BLOCK):
            inside = start + columns < vocabulary
            x = tl.load(base + start + columns, mask=start + columns < stride, other=0.0).to(tl.float32)
            added += tl.where(inside, x, 0.0)
            x = tl.where(inside, x * LOG2E, HIDDEN)
            higher = tl.maximum(top, x)
            total = total * tl.exp2(top - higher) + tl.where(inside, tl.exp2(x - higher), 0.0)
            top = higher
        highest = tl.max(top, 0)
        normalizer = highest + tl.log2(tl.sum(total * tl.exp2(top - highest), 0))  # times log2 e
        mean = tl.sum(added, 0) / vocabulary
        tl.store(plain + row, normalizer * LN2 - of_label)
        tl.store(smoothed + row, normalizer * LN2 - (1 - smoothing) * of_label - smoothing * mean)
        if GRADIENT:
            even = smoothing / vocabulary
            for start in range(0, whole, BLOCK):
                x = tl.load(base + start + columns, eviction_policy="evict_first").to(tl.float32)
                slope = (tl.exp2(x * LOG2E - normalizer) - even).to(logits_base.dtype.element_ty)
                tl.store(base + start + columns, slope, eviction_policy="evict_first")  # other rows are needed sooner
            for start in range(whole, stride, BLOCK):
                here = start + columns
                x = tl.load(base + here, mask=here < stride, other=0.0).to(tl.float32)
                slope = tl.where(here < vocabulary, tl.exp2(x * LOG2E - normalizer) - even, 0.0)
                tl.store(base + here, slope.to(logits_base.dtype.element_ty), mask=here < stride)
            tl.debug_barrier()  # the label's place is written once more, after all of this program's writes
            slope = tl.exp2(of_label * LOG2E - normalizer) - even - (1 - smoothing)
            tl.store(base + label, slope.to(logits_base.dtype.element_ty))
