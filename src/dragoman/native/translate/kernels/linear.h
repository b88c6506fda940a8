/* Matrix products: int8 weights with a scale per output and int8 activations with a scale per row, or both in float.

Sums of int8 products are exact, and float sums take the inputs in order: the result of a row depends neither on the
rows next to it nor on the kernel. Weights are in blocks of 64 outputs, read from front to back: int8 as
[block][fours of inputs][64 outputs][4 inputs] or as tiles, [block][input / 64][4 tiles][16 fours of inputs][16 outputs]
[4 inputs]; float as [block][input][64 outputs]. */
#pragma once
#include "instructions.h"
#include "vectors.h"

#define BLOCK 64 /* outputs that are computed together */
#define VECTORS (BLOCK / LANES)
#define ROW_BLOCK 32 /* rows that are computed together */
#define PREFETCH_AHEAD 4096 /* bytes between what is read and what is prefetched */

typedef struct {
    int k, n; /* inputs and outputs, each padded to a multiple of 64 with zeros */
    int8_t *w8;
    float *wf;
    float *scale, *bias;
    int32_t *correction; /* -128 times the sum of an output's weights: cancels the offset of unsigned activations */
} Linear;

/* Rows that enter a product: int8 `q` with a scale per row, or float `x`. */
typedef struct {
    int8_t *q;
    float *scale;
    float *x;
    int unsigned_bytes; /* q holds unsigned values, 128 more than the numbers */
} Activations;

/* Distance between rows of activations; not a power of two, or rows would evict each other from the cache. */
ALWAYS size_t row_pitch(int k) { return (size_t)k * (SPLITS_SIGNS ? 2 : 1) + 64; }

/* Number i of a row of q. If signs are split, each four numbers are four sizes and four flips: -1 if negative, else 0. */
ALWAYS int32_t activation_of(const Activations *in, const int8_t *row, int i) {
    const int8_t *at = row + (SPLITS_SIGNS ? i / 4 * 8 + i % 4 : i);
    return SPLITS_SIGNS ? (at[0] ^ at[4]) - at[4] : (int8_t)(in->unsigned_bytes ? *at ^ -128 : *at);
}

/* Offset in a block of the four weights of inputs 4 g .. 4 g + 3 and output c; inlined into every kernel. */
ALWAYS size_t weight_offset(int g, int c) {
#if HAS_AMX || NEON /* in tiles */
    return (size_t)(g / 16) * 4096 + (size_t)(c / 16) * 1024 + (size_t)(g % 16) * 64 + (size_t)(c % 16) * 4;
#else
    return (size_t)g * 4 * BLOCK + (size_t)c * 4;
#endif
}

ALWAYS int padded_size(int n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

/* A row in int8, all signed; returns its scale. */
float quantize_row(const float *x, int width, int8_t *q);

/* x in int8: row r is scale[r] * q[r]. */
void quantize(const float *x, int rows, int width, Activations *to);

/* Rows [first, first + rows) of `in`, at most ROW_BLOCK, times block `block`: sums[row][BLOCK], which are int32 if the
weights are int8; output_of makes the outputs of them. */
void sum_block(const Linear *l, const Activations *in, int first, int rows, int block, float *sums);

/* Vector c of a block's outputs for one row: its sums, scaled, with the bias added. */
ALWAYS Floats output_of(const Linear *l, const Activations *in, int row, int block, int c, const Floats *sums) {
    const Floats bias = ((const Floats *)(l->bias + block * BLOCK))[c];
    if (l->wf) return *sums + bias;
    const Floats scale = in->scale[row] * ((const Floats *)(l->scale + block * BLOCK))[c];
    return multiply_add(__builtin_convertvector(*(const Ints *)sums, Floats), scale, bias);
}

/* Both: out[row][BLOCK]. */
void matmul_block(const Linear *l, const Activations *in, int first, int rows, int block, float *out);
