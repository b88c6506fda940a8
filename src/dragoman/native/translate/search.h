/* Beam search as dragoman.search.types.Search defines it; search/beam.py is the reference. */
#pragma once
#include "job.h"
#include "layers.h"
#include "vocabulary.h"

typedef struct {
    float score, total;
    int32_t length;
    int32_t *tokens, *table; /* the table is kept if attention is recorded */
} FinishedHypothesis;

typedef struct {
    int first, length, limit, slots, open, finished;
    const int32_t *prefix;
    int prefix_length;
    FinishedHypothesis *done; /* best first */
} Sentence;

/* An open hypothesis. */
typedef struct {
    float total;
    int32_t sentence;
    int32_t *table;  /* its cache entries, one per position */
    int32_t *tokens;
} Hypothesis;

typedef struct {
    float total;
    int parent;
    int32_t id;
} Candidate;

typedef struct {
    Worker *w;
    const TranslationJob *job;
    Sentence *sentences;
    Hypothesis *open, *next;
    int rows;
    VocabularyScan scan;
    Candidate *candidates;
    int32_t **row_bans;
    size_t entry;    /* the first cache entry of this step */
    float *recorded; /* [entry][recorded][longest_source]; NULL for none */
    float *weights;  /* [head][longest_source], of one query */
} Search;

/* Keeps the attention of the heads that the job names; a Recorder of the decoder. */
void record_heads(void *search, int kind, int layer, int row, const float *query, const KeyValues *kv);

/* From encoded sources to finished hypotheses. */
void run_search(Search *s, int32_t *ids, int32_t *at, DecoderRow *decoder_rows);

/* Copies the n best hypotheses of each sentence to the job's arrays. */
void write_results(const Search *s);
