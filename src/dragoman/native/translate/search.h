/* Beam search as dragoman.search.types.Search defines it; search/beam.py is the reference. */
#pragma once
#include "job.h"
#include "predictions.h"

typedef struct {
    float score, total;
    int32_t length;
    int32_t *tokens, *table; /* the table is kept if attention is recorded */
} FinishedHypothesis;

typedef struct {
    int first, length, limit, slots, open, finished;
    const int32_t *prefix;
    int prefix_length;
    const SentenceConstraints *constraints; /* NULL for none */
    FinishedHypothesis *done; /* best first */
} Sentence;

/* An open hypothesis. */
typedef struct {
    float total;
    int32_t sentence, number; /* the number is of a sample */
    int32_t *table;  /* its cache entries, one per position */
    int32_t *tokens;
    Progress progress; /* toward its constraints, if there are any */
} Hypothesis;

typedef struct {
    float total;
    int parent;
    int32_t id;
} Candidate;

/* A candidate of a sentence with required phrases. */
typedef struct {
    Candidate candidate;
    int64_t missing;     /* number of required tokens still to be written */
    int hopeless, early; /* whether there is no room for them; whether it ends without them */
    int number, rank;    /* in the order of the rows, and in its bank */
} BankedCandidate;

typedef struct {
    double weight;
    int32_t id;
} WeighedToken;

typedef struct {
    Worker *w; /* of the first model */
    const TranslationJob *job;
    Sentence *sentences;
    Hypothesis *open, *next;
    int rows;
    Predictions predictions;
    Candidate *candidates;
    BankedCandidate *banked; /* of one sentence with required phrases */
    int32_t *advancing;      /* tokens that advance a required phrase */
    Progress after;          /* of one candidate */
    int32_t **row_bans;
    int32_t *forced;       /* the token that must follow each row; -1 for none */
    int32_t *drawn;        /* the next token of each row, if it is sampled */
    WeighedToken *weighed; /* [thread][vocabulary], to sample from */
    size_t entry;    /* the first cache entry of this step */
    float *recorded; /* [entry][recorded][longest_source]; NULL for none */
} Search;

/* For a Recorder that keeps the attention of the heads that the job names. */
int wants_heads(const void *search, int kind, int layer);
void record_heads(const void *search, int kind, int layer, int row, const Floats *weights, int count);

/* Whether a token would complete a phrase that the row's sentence avoids; for a VocabularyScan. */
int forbids_token(const void *search, int row, int32_t id);

/* Whether another thread has interrupted the search. */
int is_stopped(const Search *s);

/* Runs the models for the open hypotheses, all of `position` tokens; leaves the predictions of the next token. */
void begin_step(Search *s, int position, int32_t *ids, int32_t *at, DecoderRow *decoder_rows);

/* Keeps a hypothesis that has ended after `length` tokens. */
void finish_hypothesis(Search *s, Sentence *of, const Hypothesis *parent, float total, int length);

/* From encoded sources to finished hypotheses. */
void run_search(Search *s, int32_t *ids, int32_t *at, DecoderRow *decoder_rows);

/* Copies the n best hypotheses of each sentence to the job's arrays. */
void write_results(const Search *s);
