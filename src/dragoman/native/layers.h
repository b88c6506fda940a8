/* The parts of a layer, over rows: products, norms, the feed-forward network, the encoder, one step of the decoder. */
#pragma once
#include "positions.h"

#define FEED_ROWS 256 /* rows whose inner layer is held at once */

typedef struct {
    const Linear *l;
    const Rows *in;
    int rows, then, per;
    float *y;
} Product;

ALWAYS Floats activate(Floats x, int how) {
    switch (how) {
        case RELU: return larger(x, splat(0.0f));
        case SILU: return x / (1.0f + exp_of(-larger(x, splat(-87.0f))));
        case TANH: return 1.0f - 2.0f / (1.0f + exp_of(-larger(-2.0f * x, splat(-80.0f))));
        case GELU: { /* x times the normal distribution, by Abramowitz and Stegun 7.1.26 (error under 2e-7) */
            Floats z = larger(x, -x) * 0.70710678118654752f, t = 1.0f / (1.0f + 0.3275911f * z);
            Floats p = t * 1.061405429f - 1.453152027f;
            p = p * t + 1.421413741f;
            p = p * t - 0.284496736f;
            p = p * t + 0.254829592f;
            Floats tail = 0.5f * p * t * exp_of(-z * z);
            Ints above = x > 0.0f;
            return x * (Floats)(((Ints)(1.0f - tail) & above) | ((Ints)tail & ~above));
        }
        default: return x;
    }
}

static void product_chunk(void *given, int chunk, int member) {
    (void)member;
    const Product *p = given;
    _Alignas(64) float out[TILE * BLOCK];
    int last = (chunk + 1) * p->per, blocks = p->l->n / BLOCK;
    for (int block = chunk * p->per; block < last && block < blocks; block++)
        for (int first = 0; first < p->rows; first += TILE) {
            int rows = p->rows - first < TILE ? p->rows - first : TILE;
            product_block(p->l, p->in, first, rows, block, out);
            for (int r = 0; r < rows; r++) {
                Floats *y = (Floats *)(p->y + (size_t)(first + r) * p->l->n + block * BLOCK);
                const Floats *from = (const Floats *)(out + r * BLOCK);
                for (int c = 0; c < VECTORS; c++) y[c] = p->then == ADD ? y[c] + from[c] : activate(from[c], p->then);
            }
        }
}

/* Rows of floats made ready for products; `x` must be as wide as the product's inputs, filling included. */
static void enter(Worker *w, const float *x, int rows, int width) {
    if (w->model->shape.quantized)
        quantize(x, rows, width, &w->rows);
    else
        w->rows.x = (float *)x;
}

/* y = in W + b, or y += in W + b, or y = activation(in W + b); y is l->n wide. */
static void multiply(Worker *w, const Linear *l, int rows, float *y, int then) {
    int blocks = l->n / BLOCK, parts = w->team.size > 1 ? 4 * w->team.size : 1;
    int per = (blocks + parts - 1) / parts;
    Product p = {l, &w->rows, rows, then, per, y};
    together(&w->team, (blocks + per - 1) / per, product_chunk, &p);
}

static void normalize(const Model *m, const Norm *n, const float *x, float *y, int rows) {
    int d = m->shape.d_model, width = m->width, whole = d / LANES * LANES;
    for (int r = 0; r < rows; r++, x += width, y += width) {
        Floats sum = splat(0.0f), squares = splat(0.0f);
        for (int i = 0; i < width; i += LANES) sum += *(const Floats *)(x + i); /* the filling is zeros */
        float mean = sum_of(sum) / (float)d;
        for (int i = 0; i < whole; i += LANES) {
            Floats away = *(const Floats *)(x + i) - mean;
            squares += away * away;
        }
        float rest = 0.0f;
        for (int i = whole; i < d; i++) rest += (x[i] - mean) * (x[i] - mean);
        float scale = 1.0f / sqrtf((sum_of(squares) + rest) / (float)d + m->shape.epsilon);
        for (int i = 0; i < width; i += LANES)
            *(Floats *)(y + i) = (*(const Floats *)(x + i) - mean) * scale * *(const Floats *)(n->weight + i) + *(const Floats *)(n->bias + i);
    }
}

/* What a sub-layer reads: x itself, or x normalized. */
static void before(Worker *w, const Norm *n, int rows) {
    const Model *m = w->model;
    if (m->shape.pre_norm) normalize(m, n, w->x, w->h, rows);
    enter(w, m->shape.pre_norm ? w->h : w->x, rows, m->width);
}

/* x plus what the sub-layer makes of `from`; normalized, after the paper. */
static void after(Worker *w, const Linear *l, const float *from, const Norm *n, int rows) {
    enter(w, from, rows, l->k);
    multiply(w, l, rows, w->x, ADD);
    if (!w->model->shape.pre_norm) normalize(w->model, n, w->x, w->x, rows);
}

static void feed_forward(Worker *w, const Layer *l, int rows) {
    float *x = w->x, *h = w->h;
    for (int first = 0; first < rows; first += FEED_ROWS) {
        int some = rows - first < FEED_ROWS ? rows - first : FEED_ROWS;
        before(w, &l->around_feed_forward, some);
        multiply(w, &l->inner, some, w->inner, w->model->shape.activation);
        after(w, &l->outer, w->inner, &l->around_feed_forward, some);
        w->x += (size_t)some * w->model->width;
        w->h += (size_t)some * w->model->width;
    }
    w->x = x, w->h = h;
}

/* Embeddings times sqrt(d_model), and positions. */
static void embed(Worker *w, const float *table, const float *learned, const int32_t *ids, const int32_t *at, int rows) {
    const Model *m = w->model;
    int d = m->shape.d_model;
    float scale = sqrtf((float)d);
    const float *code = m->shape.positions == LEARNED ? learned : w->positions;
    for (int r = 0; r < rows; r++) {
        float *x = w->x + (size_t)r * m->width;
        const float *row = table + (size_t)ids[r] * d;
        for (int i = 0; i < d; i++) x[i] = row[i] * scale;
        if (m->shape.positions == SINUSOIDAL || m->shape.positions == LEARNED)
            for (int i = 0; i < d; i++) x[i] += code[(size_t)at[r] * d + i];
        for (int i = d; i < m->width; i++) x[i] = 0.0f;
    }
}

/* Keys and values of `rows` rows, at `from`, a row every `stride` floats, into memory. */
static void remember(Worker *w, const float *from, int stride, int rows, char *to) {
    int floats = key_floats(&w->model->heads) + value_floats(&w->model->heads);
    for (int r = 0; r < rows; r++, from += stride, to += w->entry)
        for (int i = 0; i < floats; i += LANES)
            if (w->half)
                store_half((uint16_t *)to + i, *(const Floats *)(from + i));
            else
                *(Floats *)((float *)to + i) = *(const Floats *)(from + i);
}

typedef struct {
    Worker *w;
    int tokens, stride;
    const int32_t *first, *length; /* of the sentence of each token */
    const Told *told;
} Reading;

#define READ_ROWS 32

/* Self-attention of the encoder for some tokens, four of a sentence at a time. */
static void read_chunk(void *given, int chunk, int member) {
    (void)member;
    const Reading *a = given;
    Worker *w = a->w;
    const Heads *h = &w->model->heads;
    int last = (chunk + 1) * READ_ROWS < a->tokens ? (chunk + 1) * READ_ROWS : a->tokens;
    for (int t = chunk * READ_ROWS, some; t < last; t += some) {
        const float *q[TOGETHER];
        float *out[TOGETHER];
        int end = a->first[t] + a->length[t];
        for (some = 0; some < TOGETHER && t + some < last && t + some < end; some++) {
            q[some] = w->wide + (size_t)(t + some) * a->stride;
            out[some] = w->mixed + (size_t)(t + some) * w->model->encoder[0].output.k;
        }
        Past past = {.base = (const char *)(w->wide + (size_t)a->first[t] * a->stride + key_floats(h)), .table = w->iota,
                     .stride = sizeof(float) * (size_t)a->stride, .values = sizeof(float) * (size_t)key_floats(h),
                     .count = a->length[t], .half = 0, .told = a->told, .asking = t - a->first[t]};
        (a->told ? attend_told : attend)(some, h, q, out, &past);
    }
}

/* Sentences end to end; leaves the keys and values of every decoder layer in w->cross. */
static void encode(Worker *w, const int32_t *ids, const int32_t *at, const int32_t *first, const int32_t *length, int tokens) {
    const Model *m = w->model;
    embed(w, m->source_table, m->source_positions, ids, at, tokens);
    Reading reading = {w, tokens, m->encoder[0].qkv.n, first, length, NULL};
    for (int i = 0; i < m->shape.encoder_layers; i++) {
        const Layer *l = &m->encoder[i];
        reading.told = l->told;
        before(w, &l->around_attention, tokens);
        multiply(w, &l->qkv, tokens, w->wide, STORE);
        if (m->shape.positions == ROTARY) turn(w, at, tokens, l->qkv.n);
        together(&w->team, (tokens + READ_ROWS - 1) / READ_ROWS, read_chunk, &reading);
        after(w, &l->output, w->mixed, &l->around_attention, tokens);
        feed_forward(w, l, tokens);
    }
    if (m->encoder_norm.weight) normalize(m, &m->encoder_norm, w->x, w->x, tokens);
    enter(w, w->x, tokens, m->width);
    for (int i = 0; i < m->shape.decoder_layers; i++) {
        const Linear *l = &m->decoder[i].key_value;
        multiply(w, l, tokens, w->wide, STORE);
        remember(w, w->wide, l->n, tokens, w->cross + (size_t)i * w->tokens * w->entry);
    }
}

/* Where a row of the decoder stands: its sentence's part of the source, and its own past as entries of the log. */
typedef struct {
    int32_t source_first, source_length;
    const int32_t *table;
} Place;

/* One step for `rows` rows at `position`; the rows' newest entries are `entry`, `entry` + 1, ... The result is in
w->rows, ready for the projection. */
static void step(Worker *w, const int32_t *ids, const int32_t *at, const Place *places, int rows, int position, size_t entry) {
    const Model *m = w->model;
    const Heads *h = &m->heads;
    const size_t each = w->half ? 2 : 4, values = each * (size_t)key_floats(h);
    embed(w, m->target_table, m->target_positions, ids, at, rows);
    for (int i = 0; i < m->shape.decoder_layers; i++) {
        const Layer *l = &m->decoder[i];
        char *log = w->log + (size_t)i * w->entries * w->entry;
        before(w, &l->around_attention, rows);
        multiply(w, &l->qkv, rows, w->wide, STORE);
        if (m->shape.positions == ROTARY) turn(w, at, rows, l->qkv.n);
        remember(w, w->wide + key_floats(h), l->qkv.n, rows, log + entry * w->entry);
        for (int r = 0; r < rows; r++) {
            const float *q = w->wide + (size_t)r * l->qkv.n;
            float *out = w->mixed + (size_t)r * l->output.k;
            Past past = {.base = log, .table = places[r].table, .stride = w->entry, .values = values,
                         .count = position + 1, .half = w->half, .told = l->told, .asking = position};
            (l->told ? attend_told : attend)(1, h, &q, &out, &past);
        }
        after(w, &l->output, w->mixed, &l->around_attention, rows);

        before(w, &l->around_cross, rows);
        multiply(w, &l->query, rows, w->wide, STORE);
        for (int r = 0, some; r < rows; r += some) {
            const float *q[TOGETHER];
            float *out[TOGETHER];
            for (some = 0; some < TOGETHER && r + some < rows && places[r + some].source_first == places[r].source_first; some++) {
                q[some] = w->wide + (size_t)(r + some) * l->query.n;
                out[some] = w->mixed + (size_t)(r + some) * l->cross_output.k;
            }
            Past past = {.base = w->cross + ((size_t)i * w->tokens + (size_t)places[r].source_first) * w->entry, .table = w->iota,
                         .stride = w->entry, .values = values, .count = places[r].source_length, .half = w->half};
            attend(some, h, q, out, &past);
        }
        after(w, &l->cross_output, w->mixed, &l->around_cross, rows);
        feed_forward(w, l, rows);
    }
    if (m->decoder_norm.weight) normalize(m, &m->decoder_norm, w->x, w->x, rows);
    enter(w, w->x, rows, m->width);
}
