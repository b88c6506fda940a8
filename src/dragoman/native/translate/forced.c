#include "forced.h"
#include <math.h>
#include <string.h>
#include "kernels/int8_kernels.h"
#include "positions.h"
#include "predictions.h"
#include "translate.h"

#define ENSEMBLE_ROWS 64 /* rows whose logits are in memory at once */

typedef struct {
    int first_source, n_source, first_row, n_rows;
    float *maps[3]; /* by kind */
} Pair;

typedef struct {
    Worker *w;
    const ForcedJob *job;
    Pair *pairs;
    int tokens, rows, longest;
    int32_t *source_at, *first, *length, *source_pair; /* of each source token */
    int32_t *ids, *at, *labels, *row_pair;             /* of each row of the decoder */
    DecoderRow *decoder_rows;
    Predictions predictions;
    Floats *weights; /* of MAX_QUERIES queries for each thread */
} Forced;

static int wants_maps(const ForcedJob *job) { return job->encoder_maps || job->decoder_maps || job->cross_maps; }

static int wants_layer(const void *keeper, int kind, int layer) {
    (void)layer;
    const ForcedJob *job = ((const Forced *)keeper)->job;
    return (kind == ENCODER_SELF ? job->encoder_maps : kind == DECODER_SELF ? job->decoder_maps : job->cross_maps) != NULL;
}

/* Moves the weights of one query into its row of the maps of all heads. */
static void record_weights(const void *keeper, int kind, int layer, int row, const Floats *weights, int count) {
    const Forced *f = keeper;
    const Heads *h = &f->w->model->heads;
    const Pair *pair = &f->pairs[kind == ENCODER_SELF ? f->source_pair[row] : f->row_pair[row]];
    int n_queries = kind == ENCODER_SELF ? pair->n_source : pair->n_rows;
    int n_keys = kind == DECODER_SELF ? pair->n_rows : pair->n_source;
    int at = row - (kind == ENCODER_SELF ? pair->first_source : pair->first_row);
    for (int i = 0; i < h->heads; i++) {
        float *to = pair->maps[kind] + (((size_t)layer * h->heads + i) * n_queries + at) * n_keys;
        for (int p = 0; p < count; p++) to[p] = head_weight(weights, count, i, p);
        memset(to + count, 0, sizeof(float) * (size_t)(n_keys - count));
    }
}

/* Allocates every array of a call in one region; called once to count bytes and once to allocate. */
static void allocate(Forced *f) {
    Worker *w = f->w;
    Region *r = &w->region;
    size_t tokens = (size_t)f->tokens, rows = (size_t)f->rows;
    r->used = 0;
    allocate_activations(w, f->tokens, f->rows, f->longest > f->rows ? f->longest : f->rows);
    f->pairs = region_alloc(r, sizeof(Pair) * (size_t)f->job->sentences);
    f->source_at = region_alloc(r, 4 * tokens);
    f->first = region_alloc(r, 4 * tokens);
    f->length = region_alloc(r, 4 * tokens);
    f->source_pair = region_alloc(r, 4 * tokens);
    f->ids = region_alloc(r, 4 * rows);
    f->at = region_alloc(r, 4 * rows);
    f->labels = region_alloc(r, 4 * rows);
    f->row_pair = region_alloc(r, 4 * rows);
    f->decoder_rows = region_alloc(r, sizeof(DecoderRow) * rows);
    Predictions *p = &f->predictions;
    size_t stored = f->job->models > 1 ? ENSEMBLE_ROWS : 0;
    p->pitch = (size_t)w->model->projection.n;
    p->stored = region_alloc(r, sizeof(float) * stored * p->pitch);
    p->own = region_alloc(r, sizeof(float) * stored * p->pitch);
    p->forced_log = region_alloc(r, sizeof(float) * stored);
    p->scan.best = region_alloc(r, sizeof(BestTokens) * rows * MAX_THREADS);
    p->scan.part = region_alloc(r, sizeof(PartSum) * rows * PARTS);
    ScoredToken *best = region_alloc(r, sizeof(ScoredToken) * rows * MAX_THREADS);
    const int32_t **banned = region_alloc(r, sizeof(int32_t *) * rows);
    int32_t *none = region_alloc(r, sizeof(int32_t));
    size_t weights = (size_t)w->model->heads.groups * (size_t)f->longest;
    f->weights = region_alloc(r, wants_maps(f->job) ? sizeof(Floats) * MAX_THREADS * MAX_QUERIES * weights : 0);
    if (!r->start) return;
    *none = 0;
    for (size_t i = 0; i < rows; i++) banned[i] = none;
    for (size_t i = 0; i < rows * MAX_THREADS; i++) p->scan.best[i].best = best + i;
    p->scan.banned = banned;
    if (!stored) p->stored = NULL;
}

static void set_pairs(Forced *f) {
    const ForcedJob *job = f->job;
    const ModelConfig *c = &f->w->model->config;
    size_t encoder_heads = (size_t)c->encoder_layers * (size_t)c->heads, decoder_heads = (size_t)c->decoder_layers * (size_t)c->heads;
    float *maps[3] = {job->encoder_maps, job->decoder_maps, job->cross_maps};
    const int32_t *target = job->target;
    for (int i = 0, token = 0, row = 0; i < job->sentences; i++) {
        int n_source = job->source_lengths[i], n_rows = job->target_lengths[i] + 1;
        f->pairs[i] = (Pair){token, n_source, row, n_rows, {maps[0], maps[1], maps[2]}};
        size_t S = (size_t)n_source, T = (size_t)n_rows, sizes[3] = {encoder_heads * S * S, decoder_heads * T * T, decoder_heads * T * S};
        for (int kind = 0; kind < 3; kind++)
            if (maps[kind]) maps[kind] += sizes[kind];
        for (int j = 0; j < n_rows; j++) {
            f->ids[row + j] = j ? target[j - 1] : BOS;
            f->labels[row + j] = j < n_rows - 1 ? target[j] : EOS;
            f->at[row + j] = j;
            f->row_pair[row + j] = i;
            f->decoder_rows[row + j] = (DecoderRow){token, n_source, f->w->iota + row};
        }
        for (int j = 0; j < n_source; j++) {
            f->source_at[token + j] = j;
            f->first[token + j] = token;
            f->length[token + j] = n_source;
            f->source_pair[token + j] = i;
        }
        token += n_source, row += n_rows, target += n_rows - 1;
    }
}

static void write_log_probabilities(Forced *f, Worker *const *workers) {
    Predictions *p = &f->predictions;
    p->workers = workers, p->models = f->job->models, p->mean = f->job->mean;
    p->scan.vocabulary = f->w->model->config.target_vocabulary;
    p->scan.keep = 1;
    int rows = p->models > 1 && f->rows > ENSEMBLE_ROWS ? ENSEMBLE_ROWS : f->rows;
    for (int first = 0; first < f->rows; first += rows) {
        int count = f->rows - first < rows ? f->rows - first : rows;
        p->forced = f->labels + first;
        combine_predictions(p, first, count);
        for (int r = 0; r < count; r++)
            f->job->log_probabilities[first + r] = forced_log_probability(p, r, log_normalizer(&p->scan, r));
    }
}

int force(Worker *w, const ForcedJob *job) {
    if (request_tiles()) return TILES_REFUSED;
    Worker *const *workers = job->models > 1 ? (Worker *const *)job->workers : &w;
    Forced f = {.w = w, .job = job};
    for (int i = 0; i < job->sentences; i++) {
        f.tokens += job->source_lengths[i];
        f.rows += job->target_lengths[i] + 1;
        int longer = job->source_lengths[i] > job->target_lengths[i] + 1 ? job->source_lengths[i] : job->target_lengths[i] + 1;
        f.longest = longer > f.longest ? longer : f.longest;
    }
    Region kept = w->region;
    w->region = (Region){0};
    allocate(&f);
    size_t bytes = w->region.used;
    w->region = kept;
    if (reserve_memory(w, bytes, (size_t)f.rows) || extend_position_codes(w, f.longest)) return -1;
    for (int i = 1; i < job->models; i++) {
        int longest_table = f.longest > f.rows ? f.longest : f.rows;
        if (prepare_worker(workers[i], f.tokens, f.rows, longest_table, (size_t)f.rows)) return -1;
        if (extend_position_codes(workers[i], f.longest)) return -1;
    }
    allocate(&f);
    set_pairs(&f);
    if (wants_maps(job))
        w->recorder = (Recorder){wants_layer, record_weights, &f, f.weights, (size_t)w->model->heads.groups * (size_t)f.longest};
    tiles_begin();
    for (int i = 0; i < job->models; i++) {
        pool_open(&workers[i]->pool, i ? 1 : job->threads);
        encode(workers[i], job->source, f.source_at, f.first, f.length, f.tokens);
        decode_step(workers[i], f.ids, f.at, f.decoder_rows, f.rows, 0);
    }
    if (job->log_probabilities) write_log_probabilities(&f, workers);
    for (int i = 0; i < job->models; i++) pool_close(&workers[i]->pool);
    tiles_end();
    w->recorder = (Recorder){0};
    return 0;
}
