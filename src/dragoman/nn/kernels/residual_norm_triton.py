# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for LayerNorm(x + Dropout(y)) and its gradients: each row is read once, by one warp.

A tile is `[CHUNKS * TILE, WIDTH]`: the first `WIDTH` columns of `TILE` rows, then the next `WIDTH`, and so on. One or a
few warps then hold a whole row and load 16 bytes per thread. The dropout mask is recomputed as in `nn/dropout.py`, and
there are no atomic additions: results are bit-reproducible.
"""

from __future__ import annotations

import triton
import triton.language as tl

from dragoman.nn.dropout import HASH_ROUNDS

SHIFT_1, FACTOR_1 = tl.constexpr(HASH_ROUNDS[0][0]), tl.constexpr(HASH_ROUNDS[0][1])
SHIFT_2, FACTOR_2 = tl.constexpr(HASH_ROUNDS[1][0]), tl.constexpr(HASH_ROUNDS[1][1])
SHIFT_3, FACTOR_3 = tl.constexpr(HASH_ROUNDS[2][0]), tl.constexpr(HASH_ROUNDS[2][1])


@triton.jit
def _load_seeds(seeds):
    """The two seeds of a dropout mask, as `hashed_mask` uses them."""
    first = (tl.load(seeds) * (1 << 24)).to(tl.int32) << 7
    second = (tl.load(seeds + 1) * (1 << 24)).to(tl.int32) << 7
    return first, second.to(tl.uint32, bitcast=True)


@triton.jit
def _keeps(offsets, first, second, threshold):
    """`hashed_mask` at these offsets."""
    bits = (offsets + first).to(tl.uint32, bitcast=True)
    bits = (bits ^ (bits >> SHIFT_1)) * FACTOR_1 + second
    bits = (bits ^ (bits >> SHIFT_2)) * FACTOR_2
    bits = (bits ^ (bits >> SHIFT_3)) * FACTOR_3
    return bits.to(tl.int32, bitcast=True) >= threshold


@triton.jit
def _row_sums(x, CHUNKS: tl.constexpr, TILE: tl.constexpr):
    """Sums of rows, for each chunk of a row: `[CHUNKS * TILE, 1]`."""
    sums = tl.sum(tl.reshape(tl.sum(x, 1), [CHUNKS, TILE]), 0)
    return tl.reshape(tl.broadcast_to(sums[None, :], [CHUNKS, TILE]), [CHUNKS * TILE])[:, None]


@triton.jit
def residual_norm_kernel(
    x_base, y_base, weight_base, bias_base, seeds, out_base, sum_base, mean_base, rstd_base,
    n, epsilon, threshold, factor,
    D: tl.constexpr, DROP: tl.constexpr, CHUNKS: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """`TILE` rows: the sum, its norm, and the mean and the reciprocal standard deviation of each row."""
    lines = tl.arange(0, CHUNKS * TILE)[:, None]
    rows, columns = tl.program_id(0) * TILE + lines % TILE, lines // TILE * WIDTH + tl.arange(0, WIDTH)[None, :]
    offsets, inside = rows * D + columns, (rows < n) & (columns < D)
    y = tl.load(y_base + offsets, mask=inside, other=0.0).to(tl.float32)
    x = tl.load(x_base + offsets, mask=inside, other=0.0).to(tl.float32)
    if DROP:
        first, second = _load_seeds(seeds)
        y = tl.where(_keeps(offsets, first, second, threshold), y * factor, 0.0)
    total = (x + y).to(sum_base.dtype.element_ty)
    tl.store(sum_base + offsets, total, mask=inside)
    total = total.to(tl.float32)  # as the backward pass reads it
    mean = _row_sums(total, CHUNKS, TILE) / D
    centered = tl.where(columns < D, total - mean, 0.0)
    rstd = 1 / tl.sqrt(_row_sums(centered * centered, CHUNKS, TILE) / D + epsilon)
    weight = tl.load(weight_base + columns, mask=columns < D, other=0.0)
    bias = tl.load(bias_base + columns, mask=columns < D, other=0.0)
    tl.store(out_base + offsets, (centered * rstd * weight + bias).to(out_base.dtype.element_ty), mask=inside)
    once = (rows < n) & (lines < TILE)
    tl.store(mean_base + rows, mean, mask=once)
    tl.store(rstd_base + rows, rstd, mask=once)


@triton.jit
def residual_norm_backward_kernel(
    grad_base, other_base, sum_base, mean_base, rstd_base, weight_base, seeds, dx_base, dy_base, sums_base,
    n, threshold, factor,
    D: tl.constexpr, DROP: tl.constexpr, TWO: tl.constexpr, ROWS: tl.constexpr,
    CHUNKS: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The gradients of `ROWS` rows, and their contribution to those of weight and bias."""
    part = tl.program_id(0)
    lines = tl.arange(0, CHUNKS * TILE)[:, None]
    columns = lines // TILE * WIDTH + tl.arange(0, WIDTH)[None, :]
    weight = tl.load(weight_base + columns, mask=columns < D, other=0.0)
    of_weight = tl.zeros([CHUNKS * TILE, WIDTH], tl.float32)
    of_bias = tl.zeros([CHUNKS * TILE, WIDTH], tl.float32)
    if DROP:
        first, second = _load_seeds(seeds)
    for start in tl.range(0, ROWS, TILE, num_stages=3):  # two tiles are loading while one is computed
        rows = part * ROWS + start + lines % TILE
        offsets, inside = rows * D + columns, (rows < n) & (columns < D)
        grad = tl.load(grad_base + offsets, mask=inside, other=0.0).to(tl.float32)
        if TWO:
            grad += tl.load(other_base + offsets, mask=inside, other=0.0).to(tl.float32)
        total = tl.load(sum_base + offsets, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_base + rows, mask=rows < n, other=0.0)
        rstd = tl.load(rstd_base + rows, mask=rows < n, other=0.0)
        normal = (total - mean) * rstd
        of_weight += grad * normal
        of_bias += grad
        grad *= weight
        even, along = _row_sums(grad, CHUNKS, TILE) / D, _row_sums(grad * normal, CHUNKS, TILE) / D
        dx = (grad - even - normal * along) * rstd
        tl.store(dx_base + offsets, dx.to(dx_base.dtype.element_ty), mask=inside)
        if DROP:
            dx = tl.where(_keeps(offsets, first, second, threshold), dx * factor, 0.0)
        tl.store(dy_base + offsets, dx.to(dy_base.dtype.element_ty), mask=inside)
    columns = tl.arange(0, CHUNKS)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :]
    sums = sums_base + part * 2 * D + columns
    tl.store(sums, tl.sum(tl.reshape(of_weight, [CHUNKS, TILE, WIDTH]), 1), mask=columns < D)
    tl.store(sums + D, tl.sum(tl.reshape(of_bias, [CHUNKS, TILE, WIDTH]), 1), mask=columns < D)
