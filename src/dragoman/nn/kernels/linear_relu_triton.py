# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""A Triton kernel for the gradient of a ReLU that also sums the gradient of the bias."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def relu_backward_kernel(
    grad_base, out_base, masked_base, sums_base, n, width,
    ROWS: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """`grad [n, width]` where `out` is positive: `ROWS` rows and `COLUMNS` columns of it, and their sums."""
    part = tl.program_id(0)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([TILE, COLUMNS], tl.float32)
    for start in range(0, ROWS, TILE):
        rows = part * ROWS + start + tl.arange(0, TILE)
        offsets = rows.to(tl.int64)[:, None] * width + columns[None, :]
        inside = (rows < n)[:, None] & (columns < width)[None, :]
        grad = tl.load(grad_base + offsets, mask=inside, other=0.0)
        out = tl.load(out_base + offsets, mask=inside, other=0.0)
        masked = tl.where(out > 0, grad, tl.zeros_like(grad))
        tl.store(masked_base + offsets, masked, mask=inside)
        total += masked.to(tl.float32)
    tl.store(sums_base + part * width + columns, tl.sum(total, 0), mask=columns < width)
