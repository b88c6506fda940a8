/* What a model, or an ensemble, predicts after each open hypothesis. */
#pragma once
#include "layers.h"
#include "vocabulary.h"

enum { MEAN_OF_PROBABILITIES, MEAN_OF_LOG_PROBABILITIES };

/* The best tokens of every row are in `scan`. Values of a single model and of a mean of log-probabilities are logits; those
of a mean of probabilities are probabilities. */
typedef struct {
    Worker *const *workers; /* one for each model */
    int models, mean;
    VocabularyScan scan;
    Activations output;     /* of the decoder whose logits are scanned */
    float *stored;          /* [row][pitch], all values; NULL if nobody reads them */
    float *own;             /* [row][pitch], logits of one model of an ensemble */
    size_t pitch;
    const int32_t *forced;  /* the token that must follow each predicted row; -1 for none */
    float *forced_log;      /* its log-probability, for a mean of probabilities */
} Predictions;

/* Predicts from the decoders' outputs of the rows [first, first + rows); afterward, rows are counted from `first`. */
void combine_predictions(Predictions *p, int first, int rows);

/* Runs one step of the decoders, and predicts; see decode_step. */
void predict(Predictions *p, const int32_t *ids, const int32_t *at, const DecoderRow *hypotheses, int rows, size_t entry);

/* The log-probability of a value of row `row`; `normalizer` is log_normalizer(&p->scan, row). */
float log_probability(const Predictions *p, float value, float normalizer);

/* The log-probability of the token that must follow. */
float forced_log_probability(const Predictions *p, int row, float normalizer);
