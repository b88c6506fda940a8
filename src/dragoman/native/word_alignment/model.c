#include "model.h"
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define UNIT 4294967296.0 /* of a count, 2^32 */
#define NO_SOURCE 0 /* the id of padding stands for "no source token" */
#define FLOOR 1e-9f /* probability of a pair that was never seen together */
#define BLOCK 64 /* sentences that a thread takes at a time */
#define FULL 0.7 /* share of the slots that may be used */
#define MIN_TENSION 0.1
#define MAX_TENSION 14.0

typedef struct {
    const Model *model;
    const Pairs *pairs;
    int32_t *best; /* NULL while training */
    int first; /* in the first iteration all translations are equally probable */
    _Atomic int64_t next;
    _Atomic int64_t expected, prior, variance; /* of -|i / m - j / n|, in units of 1 / 2^24 */
} Work;

static uint64_t key_of(int32_t source, int32_t target) { return ((uint64_t)(uint32_t)source << 32 | (uint32_t)target) + 1; }

static uint64_t first_slot(const Model *m, uint64_t key) {
    uint64_t hash = key * 0x9E3779B97F4A7C15u;
    return (hash ^ hash >> 29) & (m->slots - 1);
}

/* The entry of a key, or the free one where it belongs. */
static Entry *find(const Model *m, uint64_t key) {
    uint64_t slot = first_slot(m, key);
    while (m->entries[slot].key && m->entries[slot].key != key) slot = (slot + 1) & (m->slots - 1);
    return m->entries + slot;
}

Model *model_new(int64_t slots, int64_t source_vocabulary, int threads) {
    Model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    *m = (Model){.slots = (uint64_t)slots, .source_vocabulary = source_vocabulary, .tension = 4.0, .threads = threads};
    m->entries = calloc(m->slots, sizeof(Entry)); /* takes memory when it is first written */
    if (m->entries) return m;
    model_free(m);
    return NULL;
}

void model_free(Model *m) {
    if (!m) return;
    free(m->entries);
    free(m);
}

double model_probability(const Model *m, int32_t source, int32_t target) {
    const Entry *entry = find(m, key_of(source, target));
    return entry->key ? entry->probability : 0.0;
}

static int length_of(const int64_t *offsets, int64_t i) {
    int64_t length = offsets[i + 1] - offsets[i];
    return length > LONGEST ? LONGEST : (int)length;
}

/* One thread, so that which pairs have a slot does not depend on chance once the table is full. */
static void insert_pairs(Model *m, const Pairs *p) {
    for (int64_t i = 0; i < p->count; i++) {
        int n = length_of(p->source_offsets, i), k = length_of(p->target_offsets, i);
        const int32_t *source = p->source + p->source_offsets[i], *target = p->target + p->target_offsets[i];
        for (int t = 0; t < k; t++)
            for (int s = -1; s < n; s++) {
                uint64_t key = key_of(s < 0 ? NO_SOURCE : source[s], target[t]);
                Entry *entry = find(m, key);
                if (entry->key || (double)m->used >= FULL * (double)m->slots) continue;
                entry->key = key;
                m->used++;
            }
    }
}

static double feature(int t, int k, int s, int n) { return -fabs((t + 1.0) / k - (s + 1.0) / n); }

/* The prior of each source position for target position t, of k; returns its mean feature, and the variance. */
static double prior_of(const Model *m, int t, int k, int n, double *prior, double *variance) {
    double sum = 0, mean = 0, square = 0, step = exp(-m->tension / n);
    int right = (int)((int64_t)(t + 1) * n / k); /* positions from here on are right of the diagonal, s + 1 > (t + 1) n / k */
    for (int s = right; s < n; s++) sum += prior[s] = s == right ? exp(m->tension * feature(t, k, s, n)) : prior[s - 1] * step;
    for (int s = right - 1; s >= 0; s--)
        sum += prior[s] = s == right - 1 ? exp(m->tension * feature(t, k, s, n)) : prior[s + 1] * step;
    for (int s = 0; s < n; s++) {
        prior[s] /= sum;
        mean += prior[s] * feature(t, k, s, n);
        square += prior[s] * feature(t, k, s, n) * feature(t, k, s, n);
        prior[s] *= 1.0 - EMPTY;
    }
    *variance = square - mean * mean;
    return mean;
}

static void work_on(Work *w, int64_t i) {
    const Model *m = w->model;
    const Pairs *p = w->pairs;
    int n = length_of(p->source_offsets, i), k = length_of(p->target_offsets, i);
    const int32_t *source = p->source + p->source_offsets[i], *target = p->target + p->target_offsets[i];
    double prior[LONGEST], posterior[LONGEST + 1], expected = 0, of_prior = 0, variance = 0;
    Entry *entries[LONGEST + 1];
    for (int t = 0; t < k; t++) {
        double spread, mean = n ? prior_of(m, t, k, n, prior, &spread) : 0, sum = 0;
        int best = -1;
        for (int s = 0; s < n; s++) __builtin_prefetch(m->entries + first_slot(m, key_of(source[s], target[t])));
        for (int s = -1; s < n; s++) {
            const Entry *entry = entries[s + 1] = find(m, key_of(s < 0 ? NO_SOURCE : source[s], target[t]));
            double p_t = w->first ? 1.0 : entry->key ? entry->probability : FLOOR;
            sum += posterior[s + 1] = p_t * (s < 0 ? EMPTY : prior[s]);
            if (posterior[s + 1] > posterior[best + 1]) best = s;
        }
        if (w->best) {
            w->best[p->target_offsets[i] + t] = best;
            continue;
        }
        double placed = 0;
        for (int s = -1; s < n; s++) {
            double share = posterior[s + 1] / sum;
            if (entries[s + 1]->key)
                atomic_fetch_add_explicit(&entries[s + 1]->count, (uint64_t)(share * UNIT), memory_order_relaxed);
            if (s >= 0) placed += share, expected += share * feature(t, k, s, n);
        }
        if (n) of_prior += placed * mean, variance += placed * spread;
    }
    if (w->best) {
        for (int64_t t = p->target_offsets[i] + k; t < p->target_offsets[i + 1]; t++) w->best[t] = -1;
        return;
    }
    atomic_fetch_add(&w->expected, (int64_t)(expected * 16777216.0));
    atomic_fetch_add(&w->prior, (int64_t)(of_prior * 16777216.0));
    atomic_fetch_add(&w->variance, (int64_t)(variance * 16777216.0));
}

static void *run_worker(void *argument) {
    Work *w = argument;
    for (int64_t from; (from = atomic_fetch_add(&w->next, BLOCK)) < w->pairs->count;)
        for (int64_t i = from; i < from + BLOCK && i < w->pairs->count; i++) work_on(w, i);
    return NULL;
}

static void run_threads(Work *w) {
    pthread_t others[64];
    int started = 0;
    while (started < w->model->threads - 1 && started < 64 && !pthread_create(&others[started], NULL, run_worker, w)) started++;
    run_worker(w);
    for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
}

static double digamma(double x) {
    double result = 0;
    for (; x < 7; x++) result -= 1 / x;
    x -= 0.5;
    double xx = 1 / (x * x);
    return result + log(x) + xx / 24 - 7.0 / 960 * xx * xx + 31.0 / 8064 * xx * xx * xx;
}

/* The variational M step: exp(digamma(count + alpha) - digamma(sum of counts + alpha)). */
static int normalize_counts(Model *m) {
    uint64_t *totals = calloc((size_t)m->source_vocabulary, sizeof *totals);
    uint32_t *entries = calloc((size_t)m->source_vocabulary, sizeof *entries);
    if (totals && entries) {
        for (Entry *e = m->entries; e < m->entries + m->slots; e++)
            if (e->key) totals[(e->key - 1) >> 32] += e->count, entries[(e->key - 1) >> 32]++;
        for (Entry *e = m->entries; e < m->entries + m->slots; e++) {
            if (!e->key) continue;
            uint64_t source = (e->key - 1) >> 32;
            double total = (double)totals[source] / UNIT + ALPHA * entries[source];
            e->probability = (float)exp(digamma((double)e->count / UNIT + ALPHA) - digamma(total));
            e->count = 0;
        }
    }
    int failed = !totals || !entries;
    free(totals);
    free(entries);
    return failed ? -1 : 0;
}

int model_train(Model *m, const Pairs *pairs, int iterations) {
    insert_pairs(m, pairs);
    for (int i = 0; i < iterations; i++) {
        Work w = {.model = m, .pairs = pairs, .first = i == 0};
        run_threads(&w);
        if (normalize_counts(m)) return -1;
        if (i && w.variance > 0) /* a Newton step for the tension, once translations tell something */
            m->tension += (double)(w.expected - w.prior) / (double)w.variance;
        m->tension = fmin(fmax(m->tension, MIN_TENSION), MAX_TENSION);
    }
    return 0;
}

int model_align(const Model *m, const Pairs *pairs, int32_t *best) {
    Work w = {.model = m, .pairs = pairs, .best = best};
    run_threads(&w);
    return 0;
}
