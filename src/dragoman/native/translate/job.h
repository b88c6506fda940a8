/* A request from Python, and where to write the results. */
#pragma once
#include <stdint.h>

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
    const int32_t *stop;                    /* another thread sets it to interrupt the search; NULL for none */
} TranslationJob;
