/* The encoder, and one step of the decoder. */
#pragma once
#include "worker.h"

#define FEED_FORWARD_ROWS 256 /* rows whose inner layer is in memory at once */

/* A hypothesis in the decoder: its sentence's part of the source, and its cache entries, one per position. */
typedef struct {
    int32_t source_first, source_length;
    const int32_t *table;
} DecoderRow;

/* Encodes packed sentences; leaves the keys and values of every decoder layer in w->memory_keys_values. */
void encode(Worker *w, const int32_t *ids, const int32_t *at, const int32_t *first, const int32_t *length, int tokens);

/* One step for `rows` hypotheses, each at its position, whose new cache entries are `entry`, `entry` + 1, ... Leaves the
input of the output projection in w->input. */
void decode_step(Worker *w, const int32_t *ids, const int32_t *at, const DecoderRow *hypotheses, int rows, size_t entry);
