#include "predictions.h"
#include <math.h>

static int are_probabilities(const Predictions *p) { return p->models > 1 && p->mean == MEAN_OF_PROBABILITIES; }

typedef struct {
    Predictions *p;
    int model, rows;
} Member;

/* Adds a model's prediction for one row to the ensemble's. */
static void add_member(void *argument, int row, int thread) {
    (void)thread;
    const Member *a = argument;
    Predictions *p = a->p;
    float *own = p->own + (size_t)row * p->pitch, *sum = p->stored + (size_t)row * p->pitch, top = -INFINITY;
    int vocabulary = p->scan.vocabulary, first = a->model == 0, last = a->model == p->models - 1, forced = p->forced[row];
    for (int i = 0; i < vocabulary; i++) top = own[i] > top ? own[i] : top;
    Floats parts = splat(0.0f);
    for (size_t i = 0; i < p->pitch; i += LANES) parts += exp_of(*(const Floats *)(own + i) - top);
    float normalizer = top + logf(sum_of(parts)), share = 1.0f / (float)p->models;
    if (forced >= 0 && are_probabilities(p)) {
        float log_of = own[forced] - normalizer, before = p->forced_log[row];
        float high = log_of > before ? log_of : before, low = log_of > before ? before : log_of;
        p->forced_log[row] = first ? log_of : high == -INFINITY ? high : high + log1pf(expf(low - high));
        if (last) p->forced_log[row] -= logf((float)p->models);
    }
    for (size_t i = 0; i < p->pitch; i += LANES) {
        Floats value = *(const Floats *)(own + i) - normalizer;
        if (are_probabilities(p)) value = exp_of(larger(value, splat(-87.0f))) * share;
        else value *= share;
        *(Floats *)(sum + i) = first ? value : *(const Floats *)(sum + i) + value;
    }
    for (size_t i = (size_t)vocabulary; last && i < p->pitch; i++) sum[i] = -INFINITY;
}

void predict(Predictions *p, const int32_t *ids, const int32_t *at, const DecoderRow *hypotheses, int rows, size_t entry) {
    ThreadPool *pool = &p->workers[0]->pool;
    p->scan.rows = rows;
    for (int i = 0; i < p->models; i++) {
        Worker *w = p->workers[i];
        decode_step(w, ids, at, hypotheses, rows, entry);
        if (!p->stored) break;
        p->scan.projection = &w->model->projection;
        p->scan.in = &w->input;
        store_logits(&p->scan, pool, p->models > 1 ? p->own : p->stored, p->pitch);
        if (p->models > 1) parallel_for(pool, rows, add_member, &(Member){p, i, rows});
    }
    p->scan.stored = p->stored;
    p->scan.pitch = p->pitch;
    scan_vocabulary(&p->scan, pool);
}

float log_probability(const Predictions *p, float value, float normalizer) {
    return are_probabilities(p) ? logf(value) : value - normalizer;
}

float forced_log_probability(const Predictions *p, int row, float normalizer) {
    return are_probabilities(p) ? p->forced_log[row] : logit_of(&p->scan, row, p->forced[row]) - normalizer;
}
