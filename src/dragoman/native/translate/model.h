/* The Transformer's weights, packed. */
#pragma once
#include "attention.h"
#include "packing.h"

enum { NO_POSITIONS, SINUSOIDAL, LEARNED, ROTARY, LINEAR_BIAS, RELATIVE };
enum { STORE, ADD, RELU, GELU, SILU, TANH };

/* Filled in by Python: engines/native_layout.py. */
typedef struct {
    int32_t d_model, heads, d_k, d_v, d_ff, encoder_layers, decoder_layers, source_vocabulary, target_vocabulary;
    int32_t activation, positions, max_positions, pre_norm, quantized, threads, max_distance, ssru;
    float epsilon; /* of the norms */
} ModelConfig;

typedef struct {
    float *weight, *bias;
} Norm;

typedef struct {
    Linear qkv, output, query, key_value, cross_output, inner, outer;
    Linear value, gate; /* of an SSRU, instead of qkv and output */
    Norm attention_norm, cross_attention_norm, feed_forward_norm;
    RelativePositions distances;
    const RelativePositions *relative; /* of its self-attention; NULL for none */
} Layer;

typedef struct {
    ModelConfig config;
    Heads heads;
    Region region;
    int width; /* d_model, padded */
    const float *source_table, *target_table, *source_positions, *target_positions; /* the caller's memory */
    Linear projection;
    Norm encoder_norm, decoder_norm;
    Layer *encoder, *decoder;
    RelativePositions linear_bias;
} Model;

/* Packs a model's tensors; embeddings and learned positions stay in the caller's memory. A matrix that has scales is int8,
with a scale per row; all others are float. NULL if memory runs out. */
EXPORT Model *model_new(const ModelConfig *config, const void *const *tensors, const float *const *scales);
EXPORT void model_free(Model *m);
