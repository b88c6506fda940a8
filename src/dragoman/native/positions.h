/* Where tokens stand, section 3.5 and its variations: sines that are added, or that turn queries and keys. */
#pragma once
#include "model.h"
#include "team.h"

/* One thread's memory for translating one batch at a time. */
typedef struct {
    const Model *model;
    Region region, log_region;
    float *positions; /* sines and cosines for the first `placed` positions */
    int placed;
    int32_t *iota;
    float *x, *h, *wide, *mixed, *inner;
    Rows rows;
    char *cross; /* [layer][token]: a key and a value */
    char *log;   /* [layer][entry]: a key and a value for each row that each step had */
    size_t entry, tokens, entries;
    int half;
    Team team;
} Worker;

/* Floats of a position's code: one for each feature, or those that a group of heads is turned by. */
static int code_floats(const Model *m) { return m->shape.positions == ROTARY ? m->heads.key_vectors * LANES : m->shape.d_model; }

/* Which pair of features, of how many features, the float `at` of a code belongs to, and whether it is their sine. */
static int pair_at(const Model *m, int at, int *sine) {
    const Heads *h = &m->heads;
    int vector = at / LANES, rotary = m->shape.positions == ROTARY;
    *sine = (rotary ? vector : at) % 2 == 0;
    return rotary ? vector / 2 * (LANES / h->lanes) + at % LANES / h->lanes : at / 2;
}

/* PE(pos, 2i) = sin(pos / 10000^(2i / d)) and PE(pos, 2i + 1) its cosine, for positions up to n: of d_model features, in
their order; or of the d_k that are turned, a vector of sines and one of cosines in turns, as the heads are interleaved. */
static int place_positions(Worker *w, int n) {
    const Model *m = w->model;
    int rotary = m->shape.positions == ROTARY, features = rotary ? m->shape.d_k : m->shape.d_model, floats = code_floats(m);
    if ((m->shape.positions != SINUSOIDAL && !rotary) || n <= w->placed) return 0;
    n = n < 128 ? 128 : n;
    float *table = NULL;
    if (posix_memalign((void **)&table, 64, sizeof(float) * (size_t)n * (size_t)floats)) return -1;
    if (w->placed) memcpy(table, w->positions, sizeof(float) * (size_t)w->placed * (size_t)floats);
    for (int i = 0, sine; i < floats; i++) {
        double rate = pow(10000.0, -2.0 * pair_at(m, i, &sine) / features);
        for (int p = w->placed; p < n; p++) table[(size_t)p * floats + i] = (float)(sine ? sin(p * rate) : cos(p * rate));
    }
    free(w->positions);
    w->positions = table;
    w->placed = n;
    return 0;
}

#define TURN_ROWS 32

typedef struct {
    Worker *w;
    const int32_t *at;
    int rows, stride;
} Turning;

static void turn_chunk(void *given, int chunk, int member) {
    (void)member;
    const Turning *t = given;
    const Heads *h = &t->w->model->heads;
    int last = (chunk + 1) * TURN_ROWS < t->rows ? (chunk + 1) * TURN_ROWS : t->rows;
    for (int r = chunk * TURN_ROWS; r < last; r++) {
        const Floats *code = (const Floats *)(t->w->positions + (size_t)t->at[r] * code_floats(t->w->model));
        Floats *x = (Floats *)(t->w->wide + (size_t)r * t->stride);
        for (int g = 0; g < 2 * h->groups; g++, x += h->key_vectors) /* the queries' groups, then the keys' */
            for (int v = 0; v < h->key_vectors; v += 2) {
                Floats even = x[v], odd = x[v + 1], sine = code[v], cosine = code[v + 1];
                x[v] = even * cosine - odd * sine;
                x[v + 1] = even * sine + odd * cosine;
            }
    }
}

/* Rotary positions (Su et al., 2021): each pair of features of the queries and keys in w->wide turned by its row's place. */
static void turn(Worker *w, const int32_t *at, int rows, int stride) {
    Turning turning = {w, at, rows, stride};
    together(&w->team, (rows + TURN_ROWS - 1) / TURN_ROWS, turn_chunk, &turning);
}
