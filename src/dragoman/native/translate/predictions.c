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

/* The decoder's output of a model, from row `first` on. */
static Activations output_from(const Worker *w, int first) {
    int width = w->model->projection.k;
    Activations from = w->input;
    if (w->model->config.quantized) from.q += (size_t)first * row_pitch(width), from.scale += first;
    else from.x += (size_t)first * (size_t)width;
    return from;
}

void combine_predictions(Predictions *p, int first, int rows) {
    ThreadPool *pool = &p->workers[0]->pool;
    p->scan.rows = rows;
    p->scan.in = &p->output;
    for (int i = 0; i < p->models; i++) {
        p->scan.projection = &p->workers[i]->model->projection;
        p->output = output_from(p->workers[i], first);
        if (!p->stored) break;
        store_logits(&p->scan, pool, p->models > 1 ? p->own : p->stored, p->pitch);
        if (p->models > 1) parallel_for(pool, rows, add_member, &(Member){p, i, rows});
    }
    p->scan.stored = p->stored;
    p->scan.pitch = p->pitch;
    scan_vocabulary(&p->scan, pool);
}

void predict(Predictions *p, const int32_t *ids, const int32_t *at, const DecoderRow *hypotheses, int rows, size_t entry) {
    for (int i = 0; i < p->models; i++) decode_step(p->workers[i], ids, at, hypotheses, rows, entry);
    combine_predictions(p, 0, rows);
}

float log_probability(const Predictions *p, float value, float normalizer) {
    return are_probabilities(p) ? logf(value) : value - normalizer;
}

float forced_log_probability(const Predictions *p, int row, float normalizer) {
    return are_probabilities(p) ? p->forced_log[row] : logit_of(&p->scan, row, p->forced[row]) - normalizer;
}
