/* The output projection, its softmax and its best tokens in one pass; logits are never stored.

The vocabulary is split into PARTS fixed parts with one sum each, so threads can share the work without changing sums. */
#pragma once
#include "kernels/linear.h"
#include "thread_pool.h"

#define PARTS 8

enum { PAD, BOS, EOS }; /* ids of special tokens */

typedef struct {
    float value;
    int32_t id;
} ScoredToken;

/* The best tokens of one row found by one thread, best first; ties go to the lower id. */
typedef struct {
    int count;
    float threshold; /* a logit must exceed this to enter */
    ScoredToken *best;
} BestTokens;

/* Sum of e^(logit - reference) over a part. */
typedef struct {
    Floats sum;
    float reference;
} PartSum;

typedef struct {
    const Linear *projection;
    const Activations *in;
    int rows, vocabulary, keep;
    BestTokens *best; /* [thread][row] */
    PartSum *part; /* [part][row] */
    const int32_t *const *banned; /* for each row: the number of banned ids, then the ids */
    int (*forbids)(const void *search, int row, int32_t id); /* forbids further ids; NULL for none */
    const void *search;
    const float *stored; /* [row][pitch], values to scan instead of the projection's; NULL for none */
    size_t pitch;
} VocabularyScan;

/* Writes all logits to [row][pitch], with -infinity after those of the vocabulary. */
void store_logits(const VocabularyScan *s, ThreadPool *pool, float *to, size_t pitch);

/* Scans the vocabulary for every row; afterward best[row] of thread 0 holds the best overall. */
void scan_vocabulary(VocabularyScan *s, ThreadPool *pool);

/* log of the sum of e^logit over the whole vocabulary. */
float log_normalizer(const VocabularyScan *s, int row);

/* Whether an id is banned or forbidden. */
int is_excluded(const VocabularyScan *s, int row, int32_t id);

/* A single logit, bit-identical to the scan's. */
float logit_of(const VocabularyScan *s, int row, int32_t id);
