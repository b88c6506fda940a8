/* IBM Model 2 with a diagonal prior (Dyer, Chahuneau and Smith, 2013, "fast_align"), trained by variational EM.

A target token comes from a source token, or with probability EMPTY from none. The prior of position j of n for position
i of m is proportional to exp(-tension |i / m - j / n|). Counts are sums of integers, so the result does not depend on the
number of threads. */
#pragma once
#include <stdint.h>

#define EMPTY 0.08
#define ALPHA 0.01 /* of the Dirichlet prior of translations */
#define LONGEST 1024 /* tokens of a sentence; the rest of a longer one is not aligned */

typedef struct {
    uint64_t key; /* source << 32 | target, plus 1; 0 is free */
    _Atomic uint64_t count; /* in units of 1 / UNIT */
    float probability;
} Entry;

typedef struct {
    Entry *entries; /* an open hash table */
    uint64_t slots, used;
    int64_t source_vocabulary;
    double tension;
    int threads;
} Model;

/* Sentences end to end: tokens of sentence i are those from offsets[i] to offsets[i + 1]. */
typedef struct {
    int64_t count;
    const int32_t *source, *target;
    const int64_t *source_offsets, *target_offsets;
} Pairs;

/* A table for at most `slots` (a power of two) pairs of tokens; NULL if memory runs out. */
EXPORT Model *model_new(int64_t slots, int64_t source_vocabulary, int threads);
EXPORT void model_free(Model *m);
/* Trains on some pairs; returns 0, or -1 if memory runs out. */
EXPORT int model_train(Model *m, const Pairs *pairs, int iterations);
/* For each target token, the best source position in its sentence, or -1 for none. */
EXPORT int model_align(const Model *m, const Pairs *pairs, int32_t *best);
EXPORT double model_probability(const Model *m, int32_t source, int32_t target);
/* grow-diag-final-and (Koehn, Och and Marcu, 2003) of two alignments: the links of sentence i are counts[i] numbers
target << 16 | source, in order. There must be room for a link for each token of both sides. */
EXPORT int symmetrize(const Pairs *pairs, const int32_t *to_source, const int32_t *to_target, uint32_t *links, int64_t *counts);
EXPORT int self_test(void);
