/* A request from Python, and where to write the results. */
#pragma once
#include <stdint.h>
#include "constraints.h"

#define MAX_RECORDED 3 /* heads whose attention is recorded */

/* Filled in by Python: engines/native_layout.py. */
typedef struct {
    int32_t sentences, beam, n_best, min_length, no_repeat, max_length, threads;
    const int32_t *source, *source_lengths; /* ids end to end, each source with EOS */
    const int32_t *limits;
    const int32_t *prefix, *prefix_lengths; /* ids end to end; NULL for none */
    const float *normalizers;               /* for each length up to max_length + 1, EOS included */
    int32_t *tokens;                        /* [sentence][n_best][max_length] */
    int32_t *lengths;                       /* [sentence][n_best]; -1: no hypothesis */
    float *scores, *log_probabilities;      /* [sentence][n_best] */
    int32_t models, mean;                   /* of an ensemble: MEAN_OF_PROBABILITIES or MEAN_OF_LOG_PROBABILITIES */
    void *const *workers;                   /* of each model; a Worker of the first is the one that translates */
    int32_t sampled, top_k;                 /* whether to sample, from how many tokens (0: all) */
    double temperature, top_p;
    const int64_t *keys;                    /* [sentence][n_best], of the random numbers */
    int32_t recorded;                       /* number of cross-attention heads to record */
    int32_t recorded_layers[MAX_RECORDED], recorded_heads[MAX_RECORDED]; /* -1: the mean of the layer's heads */
    int32_t longest_source;
    float *maps;         /* [sentence][n_best][recorded][max_length + 1][longest_source]; NULL for none */
    const VocabularySpelling *spelling;     /* NULL if there are no constraints */
    const SentenceConstraints *constraints; /* [sentence]; NULL for none */
    const int32_t *stop; /* another thread sets it to interrupt the search; NULL for none */
} TranslationJob;
