/* The state of a translating thread. */
#pragma once
#include "model.h"
#include "thread_pool.h"

/* The memory of one thread; a thread translates one batch at a time. */
typedef struct {
    const Model *model;
    Region region, cache_region;
    float *positions; /* sines and cosines of the first `coded_positions` positions */
    int coded_positions;
    int32_t *iota;
    float *x, *h, *projected, *attended, *inner;
    Activations input; /* of the next products */
    char *memory_keys_values; /* [layer][token]: a key and a value, for cross-attention */
    char *cache;              /* [layer][entry]: a key and a value for each row of each step */
    size_t entry_bytes, tokens, entries;
    int half;
    ThreadPool pool;
} Worker;
