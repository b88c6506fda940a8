#include "model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The tensors in the order of modeldir/weights.py; absent ones are NULL. */
typedef struct {
    const void *const *at;
    const float *const *scales; /* of the rows of an int8 matrix; NULL if it is float */
} Tensors;

static const float *next_tensor(Tensors *t) { return t->scales++, *t->at++; }

static Norm build_norm(Model *m, Tensors *t) {
    const float *weight = next_tensor(t), *bias = next_tensor(t);
    size_t bytes = sizeof(float) * (size_t)m->width, real = sizeof(float) * (size_t)m->config.d_model;
    Norm n = {region_alloc(&m->region, bytes), region_alloc(&m->region, bytes)};
    if (weight && n.weight) memcpy(n.weight, weight, real), memcpy(n.bias, bias, real);
    return weight ? n : (Norm){0};
}

typedef struct {
    Model *model;
    Tensors tensors;
    Packing *packings; /* NULL while memory is only counted */
    int count, failed; /* failed: out of memory */
} ModelBuilder;

/* The order of a product's outputs or inputs. */
typedef enum { PLAIN, QUERIES, KEYS_VALUES, QUERIES_KEYS_VALUES, ATTENDED } Order;

/* Writes the model's index of channel i to from[i], unless `from` is NULL; returns the number of channels. */
static int channel_order(const Heads *h, Order order, int plain, int *from) {
    int n = order == PLAIN ? plain : 0, base = 0, keys = key_floats(h), values = value_floats(h);
    for (int i = 0; from && i < n; i++) from[i] = i;
    for (int part = 0; part < 3; part++) {
        int has = part == 0 ? order == QUERIES || order == QUERIES_KEYS_VALUES
                            : order == KEYS_VALUES || order == QUERIES_KEYS_VALUES || (part == 2 && order == ATTENDED);
        if (!has) continue;
        int size = part < 2 ? h->d_k : h->d_v, vectors = part < 2 ? h->key_vectors : h->value_vectors;
        for (int i = 0; from && i < (part < 2 ? keys : values); i++) {
            int channel = interleaved_channel(h, i, vectors, size, part < 2 && h->paired);
            from[n + i] = channel < 0 ? -1 : base + channel;
        }
        n += part < 2 ? keys : values;
        base += h->heads * size;
    }
    return n;
}

static void build_linear(ModelBuilder *m, Linear *l, int inputs, Order in, int outputs, Order out) {
    const Heads *h = &m->model->heads;
    int k = channel_order(h, in, inputs, NULL), n = channel_order(h, out, outputs, NULL);
    linear_alloc(l, &m->model->region, k, n, m->model->config.quantized);
    const float *scales = *m->tensors.scales;
    const void *w = next_tensor(&m->tensors);
    const float *bias = next_tensor(&m->tensors);
    int number = m->count++;
    if (!m->packings) return;
    int scaled = out == QUERIES || out == QUERIES_KEYS_VALUES ? key_floats(h) : 0;
    int *rows = malloc(sizeof(int) * (size_t)l->n), *columns = in == PLAIN ? NULL : malloc(sizeof(int) * (size_t)l->k);
    m->packings[number] = (Packing){.to = l, .w = scales ? NULL : w, .w8 = scales ? w : NULL, .row_scales = scales, .bias = bias, .columns = inputs, .from_row = rows,
                                    .from_column = columns, .factor = 1.0f / sqrtf((float)h->d_k), .scaled = scaled};
    if (!rows || (!columns && in != PLAIN)) {
        m->failed = 1;
        return;
    }
    for (channel_order(h, out, outputs, rows); n < l->n; n++) rows[n] = -1;
    for (channel_order(h, in, inputs, columns); columns && k < l->k; k++) columns[k] = -1;
}

/* The slopes of attention with linear biases (Press et al., 2022): 2^(-8/n), 2^(-16/n), ... for n heads if n is a
power of two; otherwise those of the next lower power, and then every second one of twice as many. */
static void build_slopes(Model *m) {
    float *slopes = region_alloc(&m->region, sizeof(float) * (size_t)m->heads.groups * LANES);
    int heads = m->config.heads, power = 1;
    while (2 * power <= heads) power *= 2;
    for (int head = 0; slopes && head < heads; head++) {
        double exponent = head < power ? -8.0 * (head + 1) / power : -4.0 * (2 * (head - power) + 1) / power;
        for (int lane = head % LANES; lane < LANES; lane += m->heads.lanes)
            slopes[head / LANES * LANES + lane] = (float)pow(2.0, exponent);
    }
    m->linear_bias.slopes = (const Floats *)slopes;
}

/* Relative positions (Shaw et al., 2018): a table with a row for each distance, the same for all heads, interleaved. */
static const float *build_distance_table(Model *m, const float *table, int vectors, int size) {
    size_t rows = 2 * (size_t)m->config.max_distance + 1, floats = (size_t)m->heads.groups * (size_t)vectors * LANES;
    float *interleaved = region_alloc(&m->region, sizeof(float) * rows * floats);
    for (size_t i = 0; interleaved && i < floats; i++) {
        int channel = interleaved_channel(&m->heads, (int)i, vectors, size, 0);
        for (size_t r = 0; channel >= 0 && r < rows; r++)
            interleaved[r * floats + i] = table[r * (size_t)size + (size_t)(channel % size)];
    }
    return interleaved;
}

static void build_relative_positions(ModelBuilder *m, Layer *l) {
    Model *model = m->model;
    const float *keys = next_tensor(&m->tensors), *values = next_tensor(&m->tensors);
    l->distances = (RelativePositions){.keys = build_distance_table(model, keys, model->heads.key_vectors, model->heads.d_k),
                          .values = build_distance_table(model, values, model->heads.value_vectors, model->heads.d_v),
                          .max_distance = model->config.max_distance};
    l->relative = &l->distances;
}

static void build_layer(ModelBuilder *m, Layer *l, int has_cross_attention) {
    const ModelConfig *s = &m->model->config;
    int d = s->d_model, attended = s->heads * s->d_v;
    if (s->ssru && has_cross_attention) {
        build_linear(m, &l->value, d, PLAIN, d, PLAIN);
        build_linear(m, &l->gate, d, PLAIN, d, PLAIN);
    } else {
        build_linear(m, &l->qkv, d, PLAIN, 0, QUERIES_KEYS_VALUES);
        build_linear(m, &l->output, attended, ATTENDED, d, PLAIN);
    }
    l->relative = s->positions == LINEAR_BIAS ? &m->model->linear_bias : NULL;
    l->attention_norm = build_norm(m->model, &m->tensors);
    if (has_cross_attention) {
        build_linear(m, &l->query, d, PLAIN, 0, QUERIES);
        build_linear(m, &l->key_value, d, PLAIN, 0, KEYS_VALUES);
        build_linear(m, &l->cross_output, attended, ATTENDED, d, PLAIN);
        l->cross_attention_norm = build_norm(m->model, &m->tensors);
    }
    build_linear(m, &l->inner, d, PLAIN, s->d_ff, PLAIN);
    build_linear(m, &l->outer, s->d_ff, PLAIN, d, PLAIN);
    l->feed_forward_norm = build_norm(m->model, &m->tensors);
}

static void build_model(ModelBuilder *builder, const void *const *tensors, const float *const *scales) {
    Model *m = builder->model;
    builder->tensors = (Tensors){tensors, scales};
    builder->count = 0;
    Tensors *t = &builder->tensors;
    m->source_table = next_tensor(t), m->target_table = next_tensor(t);
    m->source_positions = next_tensor(t), m->target_positions = next_tensor(t);
    build_linear(builder, &m->projection, m->config.d_model, PLAIN, m->config.target_vocabulary, PLAIN);
    if (m->config.positions == LINEAR_BIAS) build_slopes(m);
    m->encoder_norm = build_norm(m, t), m->decoder_norm = build_norm(m, t);
    for (int i = 0; i < m->config.encoder_layers; i++) build_layer(builder, &m->encoder[i], 0);
    for (int i = 0; i < m->config.decoder_layers; i++) build_layer(builder, &m->decoder[i], 1);
    if (m->config.positions != RELATIVE) return;
    for (int i = 0; i < m->config.encoder_layers; i++) build_relative_positions(builder, &m->encoder[i]);
    for (int i = 0; i < m->config.decoder_layers && !m->config.ssru; i++) build_relative_positions(builder, &m->decoder[i]);
}

void model_free(Model *m) {
    if (!m) return;
    region_close(&m->region);
    free(m->encoder);
    free(m->decoder);
    free(m);
}

Model *model_new(const ModelConfig *config, const void *const *tensors, const float *const *scales) {
    Model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->config = *config;
    m->heads = arrange_heads(config->heads, config->d_k, config->d_v, config->positions == ROTARY);
    m->width = padded_size(config->d_model);
    m->encoder = calloc((size_t)config->encoder_layers, sizeof(Layer));
    m->decoder = calloc((size_t)config->decoder_layers, sizeof(Layer));
    ModelBuilder builder = {.model = m};
    if (m->encoder && m->decoder) {
        build_model(&builder, tensors, scales);
        builder.packings = calloc((size_t)builder.count, sizeof(Packing));
    }
    builder.failed = !builder.packings || region_open(&m->region, m->region.used);
    if (!builder.failed) build_model(&builder, tensors, scales);
    if (!builder.failed) builder.failed = pack_all(builder.packings, builder.count, config->threads);
    for (int i = 0; builder.packings && i < builder.count; i++)
        free(builder.packings[i].from_row), free(builder.packings[i].from_column);
    free(builder.packings);
    if (builder.failed) model_free(m);
    return builder.failed ? NULL : m;
}
