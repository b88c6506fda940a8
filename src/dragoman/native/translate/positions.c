#include "positions.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Floats of a position's code: one for each feature, or the angles of a group of heads. */
static int code_floats(const Model *m) { return m->config.positions == ROTARY ? m->heads.key_vectors * LANES : m->config.d_model; }

/* The pair of features that float `at` of a code belongs to, and whether it is the sine. */
static int feature_pair(const Model *m, int at, int *sine) {
    const Heads *h = &m->heads;
    int vector = at / LANES, rotary = m->config.positions == ROTARY;
    *sine = (rotary ? vector : at) % 2 == 0;
    return rotary ? vector / 2 * (LANES / h->lanes) + at % LANES / h->lanes : at / 2;
}

int extend_position_codes(Worker *w, int n) {
    const Model *m = w->model;
    int rotary = m->config.positions == ROTARY, features = rotary ? m->config.d_k : m->config.d_model, floats = code_floats(m);
    if ((m->config.positions != SINUSOIDAL && !rotary) || n <= w->coded_positions) return 0;
    n = n < 128 ? 128 : n;
    float *table = alloc_aligned(sizeof(float) * (size_t)n * (size_t)floats);
    if (!table) return -1;
    if (w->coded_positions) memcpy(table, w->positions, sizeof(float) * (size_t)w->coded_positions * (size_t)floats);
    for (int i = 0, sine; i < floats; i++) {
        double rate = pow(10000.0, -2.0 * feature_pair(m, i, &sine) / features);
        for (int p = w->coded_positions; p < n; p++) table[(size_t)p * floats + i] = (float)(sine ? sin(p * rate) : cos(p * rate));
    }
    free_aligned(w->positions);
    w->positions = table;
    w->coded_positions = n;
    return 0;
}

#define ROTATE_ROWS 32

typedef struct {
    Worker *w;
    const int32_t *at;
    int rows, stride;
} Rotation;

static void rotate_chunk(void *argument, int chunk, int thread) {
    (void)thread;
    const Rotation *t = argument;
    const Heads *h = &t->w->model->heads;
    int last = (chunk + 1) * ROTATE_ROWS < t->rows ? (chunk + 1) * ROTATE_ROWS : t->rows;
    for (int r = chunk * ROTATE_ROWS; r < last; r++) {
        const Floats *code = (const Floats *)(t->w->positions + (size_t)t->at[r] * code_floats(t->w->model));
        Floats *x = (Floats *)(t->w->projected + (size_t)r * t->stride);
        for (int g = 0; g < 2 * h->groups; g++, x += h->key_vectors) /* the queries' groups, then the keys' */
            for (int v = 0; v < h->key_vectors; v += 2) {
                Floats even = x[v], odd = x[v + 1], sine = code[v], cosine = code[v + 1];
                x[v] = even * cosine - odd * sine;
                x[v + 1] = even * sine + odd * cosine;
            }
    }
}

void rotate(Worker *w, const int32_t *at, int rows, int stride) {
    Rotation rotation = {w, at, rows, stride};
    parallel_for(&w->pool, (rows + ROTATE_ROWS - 1) / ROTATE_ROWS, rotate_chunk, &rotation);
}
