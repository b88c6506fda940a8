#include "linear.h"
#include "int8_kernels.h"

float quantize_row(const float *x, int width, int8_t *q) {
    Floats largest = splat(0.0f);
    for (int i = 0; i < width; i += LANES) {
        Floats v = *(const Floats *)(x + i);
        largest = larger(largest, larger(v, -v));
    }
    float top = top_of(largest), factor = top > 1e-30f ? 127.0f / top : 0.0f;
    for (int i = 0; i < width; i += 16) *(Bytes *)(q + i) = bytes_of(x + i, factor);
    return top / 127.0f;
}

void quantize(const float *x, int rows, int width, Activations *to) {
    to->unsigned_bytes = uses_unsigned_bytes(rows);
    to->x = NULL;
    for (int r = 0; r < rows; r++, x += width) {
        int8_t *q = to->q + (size_t)r * row_pitch(width);
#if SPLITS_SIGNS
        to->scale[r] = quantize_row(x, width, q + width); /* the second half, which is read before it is written */
        split_signs(q, width);
#else
        to->scale[r] = quantize_row(x, width, q);
        for (int i = 0; to->unsigned_bytes && i < width; i += 16) *(Bytes *)(q + i) ^= (Bytes){} + (int8_t)-128;
#endif
    }
}

#define FLOAT_INPUTS 64 /* inputs whose float weights stay in the L1 cache while all rows pass */
#define SPLITS_INPUTS (VECTORS > SUMS / 4) /* whether four rows have more sums than registers, and the inputs are split */

/* One to four rows of x times `depth` inputs of a block, added to `out` unless they are the first. */
ALWAYS void float_rows(const int rows, const float *x, int k, int depth, const float *w, float *out, int first) {
    const int fit = rows == 1 ? SUMS : rows == 2 ? SUMS / 2 : SUMS / 4, wide = VECTORS < fit ? VECTORS : fit;
    const int ahead = SPLITS_INPUTS ? 4 * FLOAT_INPUTS * BLOCK : PREFETCH_AHEAD;
    for (int from = 0; from < VECTORS; from += wide) {
        Floats sum[4][VECTORS] = {};
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide && !first; c++) sum[r][c] = ((const Floats *)(out + r * BLOCK))[from + c];
        for (int i = 0; i < depth; i++) {
            const Floats *b = (const Floats *)(w + (size_t)i * BLOCK) + from;
            for (int c = 0; c < wide; c += 16 / LANES) __builtin_prefetch((const char *)(b + c) + ahead, 0, 3);
            for (int r = 0; r < rows; r++)
                for (int c = 0; c < wide; c++) sum[r][c] = multiply_add(splat(x[(size_t)r * k + i]), b[c], sum[r][c]);
        }
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < wide; c++) ((Floats *)(out + r * BLOCK))[from + c] = sum[r][c];
    }
}

static void float_block(const float *x, int rows, int k, const float *w, float *out) {
    const int step = SPLITS_INPUTS ? FLOAT_INPUTS : k;
    for (int i = 0; i < k; i += step, w += step * BLOCK, x += step) {
        const float *at = x;
        float *to = out;
        int left = rows, depth = k - i < step ? k - i : step;
        if (SPLITS_INPUTS) float_rows(1, at, k, depth, w, to, !i), left--, at += k, to += BLOCK; /* read from front to back */
        for (; left >= 4; left -= 4, at += 4 * (size_t)k, to += 4 * BLOCK) float_rows(4, at, k, depth, w, to, !i);
        if (left == 3) float_rows(3, at, k, depth, w, to, !i);
        if (left == 2) float_rows(2, at, k, depth, w, to, !i);
        if (left == 1) float_rows(1, at, k, depth, w, to, !i);
    }
}

void sum_block(const Linear *l, const Activations *in, int first, int rows, int block, float *sums) {
    if (l->wf) {
        float_block(in->x + (size_t)first * l->k, rows, l->k, l->wf + (size_t)block * BLOCK * l->k, sums);
        return;
    }
    const int8_t *q = in->q + first * row_pitch(l->k), *w = l->w8 + (size_t)block * BLOCK * l->k;
    int32_t *whole = (int32_t *)sums;
#if VNNI_ROWS
    if (in->unsigned_bytes)
        vnni_block(q, rows, l->k, w, l->correction + block * BLOCK, whole);
    else
#endif
#if HAS_AMX
        amx_block(q, rows, l->k, w, whole, first == 0);
#elif NEON
        neon_block(q, rows, l->k, w, whole);
#elif defined(__AVX2__) && !VNNI_ROWS
        avx2_block(q, rows, l->k, w, l->correction + block * BLOCK, whole);
#else
        portable_block(q, rows, l->k, w, whole);
#endif
}

void matmul_block(const Linear *l, const Activations *in, int first, int rows, int block, float *out) {
    sum_block(l, in, first, rows, block, out);
    for (int r = 0; r < rows; r++)
        for (int c = 0; c < VECTORS; c++) {
            Floats *at = (Floats *)(out + r * BLOCK) + c;
            *at = output_of(l, in, first + r, block, c, at);
        }
}
