/* Forced decoding: probabilities and attention of given translations, all positions of a batch in one step. */
#pragma once
#include "worker.h"

/* Filled in by Python: engines/native_layout.py. The maps of a sentence with S source tokens, EOS included, and T target
tokens, EOS included, follow those of the sentence before it. */
typedef struct {
    int32_t sentences, threads;
    const int32_t *source, *source_lengths; /* ids end to end, each source with EOS */
    const int32_t *target, *target_lengths; /* ids end to end, without special tokens */
    float *log_probabilities;               /* of the target tokens and EOS, end to end; NULL for none */
    float *encoder_maps;                    /* [layer][head][S][S]; NULL for none */
    float *decoder_maps;                    /* [layer][head][T][T]; NULL for none */
    float *cross_maps;                      /* [layer][head][T][S]; NULL for none */
    int32_t models, mean;                   /* of an ensemble, as in TranslationJob; maps are of the first model */
    void *const *workers;
} ForcedJob;

/* Returns 0, -1 if memory runs out, or TILES_REFUSED. */
EXPORT int force(Worker *w, const ForcedJob *job);
