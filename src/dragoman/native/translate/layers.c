#include "layers.h"
#include <math.h>
#include "positions.h"

typedef struct {
    const Linear *l;
    const Activations *in;
    int rows, epilogue, blocks_per_chunk;
    float *y;
} Product;

ALWAYS Floats activate(Floats x, int activation) {
    switch (activation) {
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

static void product_chunk(void *argument, int chunk, int thread) {
    (void)thread;
    const Product *p = argument;
    _Alignas(64) float sums[ROW_BLOCK * BLOCK];
    int last = (chunk + 1) * p->blocks_per_chunk, blocks = p->l->n / BLOCK;
    for (int block = chunk * p->blocks_per_chunk; block < last && block < blocks; block++)
        for (int first = 0; first < p->rows; first += ROW_BLOCK) {
            int rows = p->rows - first < ROW_BLOCK ? p->rows - first : ROW_BLOCK;
            sum_block(p->l, p->in, first, rows, block, sums);
            for (int r = 0; r < rows; r++) {
                Floats *y = (Floats *)(p->y + (size_t)(first + r) * p->l->n + block * BLOCK);
                for (int c = 0; c < VECTORS; c++) {
                    Floats out = output_of(p->l, p->in, first + r, block, c, (const Floats *)(sums + r * BLOCK) + c);
                    y[c] = p->epilogue == ADD ? y[c] + out : activate(out, p->epilogue);
                }
            }
        }
}

/* Makes x the input of the next products; it must have the width of their inputs, padding included. */
static void set_input(Worker *w, const float *x, int rows, int width) {
    if (w->model->config.quantized)
        quantize(x, rows, width, &w->input);
    else
        w->input.x = (float *)x;
}

/* y = in W + b, or y += in W + b, or y = activation(in W + b); y is l->n wide. */
static void project(Worker *w, const Linear *l, int rows, float *y, int epilogue) {
    int blocks = l->n / BLOCK, parts = w->pool.size > 1 ? 4 * w->pool.size : 1;
    int blocks_per_chunk = (blocks + parts - 1) / parts;
    Product p = {l, &w->input, rows, epilogue, blocks_per_chunk, y};
    parallel_for(&w->pool, (blocks + blocks_per_chunk - 1) / blocks_per_chunk, product_chunk, &p);
}

static void normalize(const Model *m, const Norm *n, const float *x, float *y, int rows) {
    int d = m->config.d_model, width = m->width, whole = d / LANES * LANES;
    for (int r = 0; r < rows; r++, x += width, y += width) {
        Floats sum = splat(0.0f), squares = splat(0.0f);
        for (int i = 0; i < width; i += LANES) sum += *(const Floats *)(x + i); /* the padding is zeros */
        float mean = sum_of(sum) / (float)d;
        for (int i = 0; i < whole; i += LANES) {
            Floats centered = *(const Floats *)(x + i) - mean;
            squares += centered * centered;
        }
        float rest = 0.0f;
        for (int i = whole; i < d; i++) rest += (x[i] - mean) * (x[i] - mean);
        float scale = 1.0f / sqrtf((sum_of(squares) + rest) / (float)d + m->config.epsilon);
        for (int i = 0; i < width; i += LANES)
            *(Floats *)(y + i) = (*(const Floats *)(x + i) - mean) * scale * *(const Floats *)(n->weight + i) +
                                 *(const Floats *)(n->bias + i);
    }
}

/* Makes x, normalized with pre-norm, the input of a sublayer. */
static void sublayer_input(Worker *w, const Norm *n, int rows) {
    const Model *m = w->model;
    if (m->config.pre_norm) normalize(m, n, w->x, w->h, rows);
    set_input(w, m->config.pre_norm ? w->h : w->x, rows, m->width);
}

/* x += the projection of `from`, normalized with post-norm. */
static void sublayer_output(Worker *w, const Linear *l, const float *from, const Norm *n, int rows) {
    set_input(w, from, rows, l->k);
    project(w, l, rows, w->x, ADD);
    if (!w->model->config.pre_norm) normalize(w->model, n, w->x, w->x, rows);
}

static void feed_forward(Worker *w, const Layer *l, int rows) {
    float *x = w->x, *h = w->h;
    for (int first = 0; first < rows; first += FEED_FORWARD_ROWS) {
        int count = rows - first < FEED_FORWARD_ROWS ? rows - first : FEED_FORWARD_ROWS;
        sublayer_input(w, &l->feed_forward_norm, count);
        project(w, &l->inner, count, w->inner, w->model->config.activation);
        sublayer_output(w, &l->outer, w->inner, &l->feed_forward_norm, count);
        w->x += (size_t)count * w->model->width;
        w->h += (size_t)count * w->model->width;
    }
    w->x = x, w->h = h;
}

/* Embeddings times sqrt(d_model), plus positions. */
static void embed(Worker *w, const float *table, const float *learned, const int32_t *ids, const int32_t *at, int rows) {
    const Model *m = w->model;
    int d = m->config.d_model;
    float scale = sqrtf((float)d);
    const float *code = m->config.positions == LEARNED ? learned : w->positions;
    for (int r = 0; r < rows; r++) {
        float *x = w->x + (size_t)r * m->width;
        const float *row = table + (size_t)ids[r] * d;
        for (int i = 0; i < d; i++) x[i] = row[i] * scale;
        if (m->config.positions == SINUSOIDAL || m->config.positions == LEARNED)
            for (int i = 0; i < d; i++) x[i] += code[(size_t)at[r] * d + i];
        for (int i = d; i < m->width; i++) x[i] = 0.0f;
    }
}

/* Copies the keys and values of rows at `from`, `stride` floats apart, to a cache. */
static void store_keys_values(Worker *w, const float *from, int stride, int rows, char *to) {
    int floats = key_floats(&w->model->heads) + value_floats(&w->model->heads);
    for (int r = 0; r < rows; r++, from += stride, to += w->entry_bytes)
        for (int i = 0; i < floats; i += LANES)
            if (w->half)
                store_half((uint16_t *)to + i, *(const Floats *)(from + i));
            else
                *(Floats *)((float *)to + i) = *(const Floats *)(from + i);
}

/* Attention of `count` queries that share keys, from `row` on; a recorder is given the weights that it wants. */
static void attend_rows(Worker *w, int kind, int layer, int row, int count, const float *const *queries, float *const *outputs,
                        const KeyValues *kv, int thread) {
    const Recorder *recorder = &w->recorder;
    __typeof__(attend) *kernel = kv->relative ? attend_relative : attend;
    if (!recorder->wants || !recorder->wants(recorder->keeper, kind, layer)) {
        kernel(count, &w->model->heads, queries, outputs, NULL, kv);
        return;
    }
    Floats *weights[MAX_QUERIES];
    for (int i = 0; i < count; i++)
        weights[i] = recorder->weights + ((size_t)thread * MAX_QUERIES + (size_t)i) * recorder->stride;
    kernel(count, &w->model->heads, queries, outputs, weights, kv);
    for (int i = 0; i < count; i++) recorder->record(recorder->keeper, kind, layer, row + i, weights[i], kv->count);
}

typedef struct {
    Worker *w;
    int tokens, stride;
    const int32_t *first, *length; /* of the sentence of each token */
    const RelativePositions *relative;
    int layer;
} EncoderAttention;

#define ENCODER_CHUNK 32

/* Self-attention of the encoder for a chunk of tokens, four of a sentence at a time. */
static void encoder_attention_chunk(void *argument, int chunk, int thread) {
    const EncoderAttention *a = argument;
    Worker *w = a->w;
    const Heads *h = &w->model->heads;
    int last = (chunk + 1) * ENCODER_CHUNK < a->tokens ? (chunk + 1) * ENCODER_CHUNK : a->tokens;
    for (int t = chunk * ENCODER_CHUNK, count; t < last; t += count) {
        const float *q[MAX_QUERIES];
        float *out[MAX_QUERIES];
        int end = a->first[t] + a->length[t];
        for (count = 0; count < MAX_QUERIES && t + count < last && t + count < end; count++) {
            q[count] = w->projected + (size_t)(t + count) * a->stride;
            out[count] = w->attended + (size_t)(t + count) * w->model->encoder[0].output.k;
        }
        const float *keys = w->projected + (size_t)a->first[t] * a->stride + key_floats(h);
        KeyValues kv = {.base = (const char *)keys, .table = w->iota, .stride = sizeof(float) * (size_t)a->stride,
                        .values = sizeof(float) * (size_t)key_floats(h), .count = a->length[t], .half = 0,
                        .relative = a->relative, .first_query = t - a->first[t]};
        attend_rows(w, ENCODER_SELF, a->layer, t, count, q, out, &kv, thread);
    }
}

void encode(Worker *w, const int32_t *ids, const int32_t *at, const int32_t *first, const int32_t *length, int tokens) {
    const Model *m = w->model;
    embed(w, m->source_table, m->source_positions, ids, at, tokens);
    EncoderAttention attention = {w, tokens, m->encoder[0].qkv.n, first, length, NULL, 0};
    for (int i = 0; i < m->config.encoder_layers; i++) {
        const Layer *l = &m->encoder[i];
        attention.relative = l->relative;
        attention.layer = i;
        sublayer_input(w, &l->attention_norm, tokens);
        project(w, &l->qkv, tokens, w->projected, STORE);
        if (m->config.positions == ROTARY) rotate(w, at, tokens, l->qkv.n);
        parallel_for(&w->pool, (tokens + ENCODER_CHUNK - 1) / ENCODER_CHUNK, encoder_attention_chunk, &attention);
        sublayer_output(w, &l->output, w->attended, &l->attention_norm, tokens);
        feed_forward(w, l, tokens);
    }
    if (m->encoder_norm.weight) normalize(m, &m->encoder_norm, w->x, w->x, tokens);
    set_input(w, w->x, tokens, m->width);
    for (int i = 0; i < m->config.decoder_layers; i++) {
        const Linear *l = &m->decoder[i].key_value;
        project(w, l, tokens, w->projected, STORE);
        store_keys_values(w, w->projected, l->n, tokens, w->memory_keys_values + (size_t)i * w->tokens * w->entry_bytes);
    }
}

/* Self-attention of a decoder layer; `entry` is the first of the new cache entries. */
static void decoder_attention(Worker *w, const int32_t *at, const DecoderRow *hypotheses, int layer, int rows, size_t entry) {
    const Model *m = w->model;
    const Heads *h = &m->heads;
    const Layer *l = &m->decoder[layer];
    const size_t values = (w->half ? 2 : 4) * (size_t)key_floats(h);
    char *cache = w->cache + (size_t)layer * w->entries * w->entry_bytes;
    sublayer_input(w, &l->attention_norm, rows);
    project(w, &l->qkv, rows, w->projected, STORE);
    if (m->config.positions == ROTARY) rotate(w, at, rows, l->qkv.n);
    store_keys_values(w, w->projected + key_floats(h), l->qkv.n, rows, cache + entry * w->entry_bytes);
    for (int r = 0; r < rows; r++) {
        const float *q = w->projected + (size_t)r * l->qkv.n;
        float *out = w->attended + (size_t)r * l->output.k;
        KeyValues kv = {.base = cache, .table = hypotheses[r].table, .stride = w->entry_bytes, .values = values,
                        .count = at[r] + 1, .half = w->half, .relative = l->relative, .first_query = at[r]};
        attend_rows(w, DECODER_SELF, layer, r, 1, &q, &out, &kv, 0);
    }
    sublayer_output(w, &l->output, w->attended, &l->attention_norm, rows);
}

/* The SSRU of a decoder layer: c = f c' + (1 - f) W x with f = sigmoid(W_f x + b_f); x += max(0, c). The cells c' before
a row are those of the entry of its previous position, which is an earlier row or of the step before. */
static void decoder_ssru(Worker *w, const int32_t *at, const DecoderRow *hypotheses, int layer, int rows) {
    const Model *m = w->model;
    const Layer *l = &m->decoder[layer];
    const int width = m->width;
    float *values = w->projected, *gates = values + (size_t)rows * width;
    float *cells = w->cells + (size_t)layer * w->cell_rows * width;
    sublayer_input(w, &l->attention_norm, rows);
    project(w, &l->value, rows, values, STORE);
    project(w, &l->gate, rows, gates, STORE);
    for (int r = 0; r < rows; r++) {
        const int32_t *table = hypotheses[r].table;
        const float *before = at[r] ? cells + (size_t)table[at[r] - 1] % w->cell_rows * width : NULL;
        float *after = cells + (size_t)table[at[r]] % w->cell_rows * width, *x = w->x + (size_t)r * width;
        for (int i = 0; i < width; i += LANES) {
            Floats value = *(const Floats *)(values + (size_t)r * width + i), gate = *(const Floats *)(gates + (size_t)r * width + i);
            Floats keep = 1.0f / (1.0f + exp_of(-larger(gate, splat(-87.0f))));
            Floats past = before ? *(const Floats *)(before + i) : splat(0.0f);
            Floats cell = multiply_add(keep, past - value, value);
            *(Floats *)(after + i) = cell;
            *(Floats *)(x + i) += larger(splat(0.0f), cell); /* NaN stays NaN */
        }
    }
    if (!m->config.pre_norm) normalize(m, &l->attention_norm, w->x, w->x, rows);
}

void decode_step(Worker *w, const int32_t *ids, const int32_t *at, const DecoderRow *hypotheses, int rows, size_t entry) {
    const Model *m = w->model;
    const Heads *h = &m->heads;
    const size_t values = (w->half ? 2 : 4) * (size_t)key_floats(h);
    embed(w, m->target_table, m->target_positions, ids, at, rows);
    for (int i = 0; i < m->config.decoder_layers; i++) {
        const Layer *l = &m->decoder[i];
        if (m->config.ssru)
            decoder_ssru(w, at, hypotheses, i, rows);
        else
            decoder_attention(w, at, hypotheses, i, rows, entry);
        sublayer_input(w, &l->cross_attention_norm, rows);
        project(w, &l->query, rows, w->projected, STORE);
        for (int r = 0, count; r < rows; r += count) {
            const float *q[MAX_QUERIES];
            float *out[MAX_QUERIES];
            const int32_t first = hypotheses[r].source_first; /* the hypotheses of a sentence share its keys and values */
            for (count = 0; count < MAX_QUERIES && r + count < rows && hypotheses[r + count].source_first == first; count++) {
                q[count] = w->projected + (size_t)(r + count) * l->query.n;
                out[count] = w->attended + (size_t)(r + count) * l->cross_output.k;
            }
            KeyValues kv = {.base = w->memory_keys_values + ((size_t)i * w->tokens + (size_t)first) * w->entry_bytes,
                            .table = w->iota, .stride = w->entry_bytes, .values = values,
                            .count = hypotheses[r].source_length, .half = w->half};
            attend_rows(w, CROSS, i, r, count, q, out, &kv, 0);
        }
        sublayer_output(w, &l->cross_output, w->attended, &l->cross_attention_norm, rows);
        feed_forward(w, l, rows);
    }
    if (m->decoder_norm.weight) normalize(m, &m->decoder_norm, w->x, w->x, rows);
    set_input(w, w->x, rows, m->width);
}
