/* Matrix products: int8 weights with a scale per output and int8 activations with a scale per row, or both in float.

Sums of int8 products are exact, and float sums take the inputs in order: the result of a row depends neither on the
rows next to it nor on the kernel. Weights are in blocks of 64 outputs, read from front to back: int8 as
[block][fours of inputs][64 outputs][4 inputs] or as tiles, [block][input / 64][4 tiles][16 fours of inputs][16 outputs]
[4 inputs]; float as [block][input][64 outputs]. */
#pragma once
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
ALWAYS size_t row_pitch(int k) { return (size_t)k + 64; }

ALWAYS int padded_size(int n) { return (n + BLOCK - 1) / BLOCK * BLOCK; }

/* x in int8: row r is scale[r] * q[r]. */
void quantize(const float *x, int rows, int width, Activations *to);

/* Rows [first, first + rows) of `in`, at most ROW_BLOCK, times block `block`: out[row][BLOCK], with the bias added. */
void matmul_block(const Linear *l, const Activations *in, int first, int rows, int block, float *out);
