/* Scaled dot-product attention of a few queries to the same positions, all heads at once.

The channels of queries, keys and values are interleaved: the lanes of a vector are different heads. With 8 heads, a vector
of 16 lanes holds channels i and i + 1 of each. Scores then need one sum across lanes at the end, and the softmax of all
heads is one vector. Weights are permuted when they are packed, which gives products in this order. With rotary positions,
the channels of a pair are in the same lane of two adjacent vectors. Positions are processed 64 at a time, and earlier sums
are rescaled when a larger score appears. */
#pragma once
#include "kernels/vectors.h"

#define MAX_QUERIES 4 /* that share loaded keys and values */

typedef struct {
    int heads, lanes, groups; /* groups of up to LANES heads, each spread over `lanes` lanes (a power of two) */
    int d_k, d_v;
    int key_vectors, value_vectors; /* of one group */
    int paired;
} Heads;

Heads arrange_heads(int heads, int d_k, int d_v, int paired);

ALWAYS int key_floats(const Heads *h) { return h->groups * h->key_vectors * LANES; }
ALWAYS int value_floats(const Heads *h) { return h->groups * h->value_vectors * LANES; }

/* The model's channel at index `at` of the interleaved order; -1 for padding. */
int interleaved_channel(const Heads *h, int at, int vectors, int size, int paired);

/* Positions that enter self-attention as distances between tokens: ALiBi's slopes, or tables of relative positions. */
typedef struct {
    const Floats *slopes; /* a vector per group: what each head subtracts per token of distance */
    const float *keys, *values; /* a row for each distance from -max_distance to max_distance, added to keys and values */
    int max_distance;
} RelativePositions;

/* Cached keys and values: position p has its key at base + table[p] * stride, and its value `values` bytes after it. */
typedef struct {
    const char *base;
    const int32_t *table;
    size_t stride, values;
    int count, half;
    const RelativePositions *relative; /* NULL: none */
    int first_query;       /* position of the first query; the others follow it */
} KeyValues;

/* softmax(q k^T) v for up to MAX_QUERIES queries, already scaled by 1 / sqrt(d_k). `weights`, if given, has room for the
softmax of each query, [group][kv->count]; head_weight reads it. */
void attend(int nq, const Heads *h, const float *const *queries, float *const *outputs, Floats *const *weights,
            const KeyValues *kv);

/* The same with kv->relative: for several queries of the encoder, or one of the decoder. */
void attend_relative(int nq, const Heads *h, const float *const *queries, float *const *outputs, Floats *const *weights,
                     const KeyValues *kv);

/* The weight of a head at a position, of a query that attended to `count` positions. */
ALWAYS float head_weight(const Floats *weights, int count, int head, int position) {
    return ((const float *)(weights + (size_t)(head / LANES) * (size_t)count + position))[head % LANES];
}
