/* The Transformer's weights, packed: what `model_new` makes of the tensors of a model directory. */
#pragma once
#include "attention.h"
#include "packing.h"

enum { NO_POSITIONS, SINUSOIDAL, LEARNED, ROTARY, LINEAR_BIAS, RELATIVE };
enum { STORE, ADD, RELU, GELU, SILU, TANH };

/* As engines/native.py fills it in. */
typedef struct {
    int32_t d_model, heads, d_k, d_v, d_ff, encoder_layers, decoder_layers, source_vocabulary, target_vocabulary;
    int32_t activation, positions, max_positions, pre_norm, quantized, threads, max_distance;
    float epsilon; /* of the norms */
} Shape;

typedef struct {
    float *weight, *bias;
} Norm;

typedef struct {
    Linear qkv, output, query, key_value, cross_output, inner, outer;
    Norm around_attention, around_cross, around_feed_forward;
    Told distances;
    const Told *told; /* its self-attention; NULL for nothing */
} Layer;

typedef struct {
    Shape shape;
    Heads heads;
    Region region;
    int width; /* d_model, filled up */
    const float *source_table, *target_table, *source_positions, *target_positions; /* the caller's memory */
    Linear projection;
    Norm encoder_norm, decoder_norm;
    Layer *encoder, *decoder;
    Told nearness;
} Model;

/* The tensors in the order in which Python names them; absent ones are NULL. */
typedef struct {
    const float *const *at;
} Tensors;

static const float *next_tensor(Tensors *t) { return *t->at++; }

static Norm place_norm(Model *m, Tensors *t) {
    const float *weight = next_tensor(t), *bias = next_tensor(t);
    size_t bytes = sizeof(float) * (size_t)m->width, real = sizeof(float) * (size_t)m->shape.d_model;
    Norm n = {take(&m->region, bytes), take(&m->region, bytes)};
    if (weight && n.weight) memcpy(n.weight, weight, real), memcpy(n.bias, bias, real);
    return weight ? n : (Norm){0};
}

typedef struct {
    Model *model;
    Tensors tensors;
    Packing *packings; /* NULL while only the room is counted */
    int count, failed; /* failed: there was no memory */
} Making;

/* What a product's outputs or inputs are, in order. */
typedef enum { PLAIN, QUERIES, KEYS_VALUES, QUERIES_KEYS_VALUES, MIXED } Order;

/* from[i], where it is asked for: the model's own number of channel i; returns how many there are. */
static int channels(const Heads *h, Order order, int plain, int *from) {
    int n = order == PLAIN ? plain : 0, base = 0, keys = key_floats(h), values = value_floats(h);
    for (int i = 0; from && i < n; i++) from[i] = i;
    for (int part = 0; part < 3; part++) {
        int has = part == 0 ? order == QUERIES || order == QUERIES_KEYS_VALUES
                            : order == KEYS_VALUES || order == QUERIES_KEYS_VALUES || (part == 2 && order == MIXED);
        if (!has) continue;
        int size = part < 2 ? h->d_k : h->d_v, vectors = part < 2 ? h->key_vectors : h->value_vectors;
        for (int i = 0; from && i < (part < 2 ? keys : values); i++) {
            int channel = channel_at(h, i, vectors, size, part < 2 && h->paired);
            from[n + i] = channel < 0 ? -1 : base + channel;
        }
        n += part < 2 ? keys : values;
        base += h->heads * size;
    }
    return n;
}

static void make_linear(Making *m, Linear *l, int inputs, Order in, int outputs, Order out) {
    const Heads *h = &m->model->heads;
    int k = channels(h, in, inputs, NULL), n = channels(h, out, outputs, NULL);
    linear_place(l, &m->model->region, k, n, m->model->shape.quantized);
    const float *w = next_tensor(&m->tensors), *bias = next_tensor(&m->tensors);
    int number = m->count++;
    if (!m->packings) return;
    int scaled = out == QUERIES || out == QUERIES_KEYS_VALUES ? key_floats(h) : 0;
    int *rows = malloc(sizeof(int) * (size_t)l->n), *columns = in == PLAIN ? NULL : malloc(sizeof(int) * (size_t)l->k);
    m->packings[number] = (Packing){.to = l, .w = w, .bias = bias, .columns = inputs, .from_row = rows,
                                    .from_column = columns, .factor = 1.0f / sqrtf((float)h->d_k), .scaled = scaled};
    if (!rows || (!columns && in != PLAIN)) {
        m->failed = 1;
        return;
    }
    for (channels(h, out, outputs, rows); n < l->n; n++) rows[n] = -1;
    for (channels(h, in, inputs, columns); columns && k < l->k; k++) columns[k] = -1;
}

/* The slopes of attention with linear biases (Press et al., 2022): 2^(-8/n), 2^(-16/n), ... for n heads, where n is a
power of two; else those of the next lower power, and then every second one of twice as many. */
static void place_slopes(Model *m) {
    float *slopes = take(&m->region, sizeof(float) * (size_t)m->heads.groups * LANES);
    int heads = m->shape.heads, power = 1;
    while (2 * power <= heads) power *= 2;
    for (int head = 0; slopes && head < heads; head++) {
        double exponent = head < power ? -8.0 * (head + 1) / power : -4.0 * (2 * (head - power) + 1) / power;
        for (int lane = head % LANES; lane < LANES; lane += m->heads.lanes)
            slopes[head / LANES * LANES + lane] = (float)pow(2.0, exponent);
    }
    m->nearness.slopes = (const Floats *)slopes;
}

/* Relative positions (Shaw et al., 2018): a table with a row for each distance, the same for all heads, interleaved. */
static const float *place_distances(Model *m, const float *table, int vectors, int size) {
    size_t rows = 2 * (size_t)m->shape.max_distance + 1, floats = (size_t)m->heads.groups * (size_t)vectors * LANES;
    float *placed = take(&m->region, sizeof(float) * rows * floats);
    for (size_t i = 0; placed && i < floats; i++) {
        int channel = channel_at(&m->heads, (int)i, vectors, size, 0);
        for (size_t r = 0; channel >= 0 && r < rows; r++) placed[r * floats + i] = table[r * (size_t)size + (size_t)(channel % size)];
    }
    return placed;
}

static void tell_distances(Making *m, Layer *l) {
    Model *model = m->model;
    const float *keys = next_tensor(&m->tensors), *values = next_tensor(&m->tensors);
    l->distances = (Told){.keys = place_distances(model, keys, model->heads.key_vectors, model->heads.d_k),
                          .values = place_distances(model, values, model->heads.value_vectors, model->heads.d_v),
                          .farthest = model->shape.max_distance};
    l->told = &l->distances;
}

static void make_layer(Making *m, Layer *l, int crossed) {
    const Shape *s = &m->model->shape;
    int d = s->d_model, mixed = s->heads * s->d_v;
    make_linear(m, &l->qkv, d, PLAIN, 0, QUERIES_KEYS_VALUES);
    make_linear(m, &l->output, mixed, MIXED, d, PLAIN);
    l->told = s->positions == LINEAR_BIAS ? &m->model->nearness : NULL;
    l->around_attention = place_norm(m->model, &m->tensors);
    if (crossed) {
        make_linear(m, &l->query, d, PLAIN, 0, QUERIES);
        make_linear(m, &l->key_value, d, PLAIN, 0, KEYS_VALUES);
        make_linear(m, &l->cross_output, mixed, MIXED, d, PLAIN);
        l->around_cross = place_norm(m->model, &m->tensors);
    }
    make_linear(m, &l->inner, d, PLAIN, s->d_ff, PLAIN);
    make_linear(m, &l->outer, s->d_ff, PLAIN, d, PLAIN);
    l->around_feed_forward = place_norm(m->model, &m->tensors);
}

static void make_all(Making *making, const float *const *tensors) {
    Model *m = making->model;
    making->tensors = (Tensors){tensors};
    making->count = 0;
    Tensors *t = &making->tensors;
    m->source_table = next_tensor(t), m->target_table = next_tensor(t);
    m->source_positions = next_tensor(t), m->target_positions = next_tensor(t);
    make_linear(making, &m->projection, m->shape.d_model, PLAIN, m->shape.target_vocabulary, PLAIN);
    if (m->shape.positions == LINEAR_BIAS) place_slopes(m);
    m->encoder_norm = place_norm(m, t), m->decoder_norm = place_norm(m, t);
    for (int i = 0; i < m->shape.encoder_layers; i++) make_layer(making, &m->encoder[i], 0);
    for (int i = 0; i < m->shape.decoder_layers; i++) make_layer(making, &m->decoder[i], 1);
    if (m->shape.positions != RELATIVE) return;
    for (int i = 0; i < m->shape.encoder_layers; i++) tell_distances(making, &m->encoder[i]);
    for (int i = 0; i < m->shape.decoder_layers; i++) tell_distances(making, &m->decoder[i]);
}

void model_free(Model *m) {
    if (!m) return;
    region_close(&m->region);
    free(m->encoder);
    free(m->decoder);
    free(m);
}

/* A model of these tensors; the embeddings and learned positions stay where they are, the rest is packed. */
Model *model_new(const Shape *shape, const float *const *tensors) {
    Model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->shape = *shape;
    m->heads = heads_of(shape->heads, shape->d_k, shape->d_v, shape->positions == ROTARY);
    m->width = padded(shape->d_model);
    m->encoder = calloc((size_t)shape->encoder_layers, sizeof(Layer));
    m->decoder = calloc((size_t)shape->decoder_layers, sizeof(Layer));
    Making making = {.model = m};
    if (m->encoder && m->decoder) {
        make_all(&making, tensors);
        making.packings = calloc((size_t)making.count, sizeof(Packing));
    }
    making.failed = !making.packings || region_open(&m->region, m->region.used);
    if (!making.failed) make_all(&making, tensors);
    if (!making.failed) making.failed = pack_all(making.packings, making.count, shape->threads);
    for (int i = 0; making.packings && i < making.count; i++)
        free(making.packings[i].from_row), free(making.packings[i].from_column);
    free(making.packings);
    if (making.failed) model_free(m);
    return making.failed ? NULL : m;
}
