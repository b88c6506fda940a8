/* The state of a translating thread. */
#pragma once
#include "model.h"
#include "thread_pool.h"

enum { ENCODER_SELF, DECODER_SELF, CROSS };

/* Keeps attention weights. `wants` says of which layers; `record` is given those of each query, from several threads for the
encoder. `weights` has `stride` vectors for each of MAX_QUERIES queries of each thread. */
typedef struct {
    int (*wants)(const void *keeper, int kind, int layer);
    void (*record)(const void *keeper, int kind, int layer, int row, const Floats *weights, int count);
    const void *keeper;
    Floats *weights;
    size_t stride;
} Recorder;

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
    float *cells;             /* [layer][cell_rows][width]: the cells of SSRUs; entry e is in row e % cell_rows */
    size_t entry_bytes, tokens, entries, cell_rows;
    int half;
    Recorder recorder; /* its functions are NULL if nothing is recorded */
    ThreadPool pool;
} Worker;

EXPORT Worker *worker_new(const Model *m);
EXPORT void worker_free(Worker *w);

/* Allocates what the layers need for a batch in w->region; without memory, only counts its bytes. */
void allocate_activations(Worker *w, int tokens, int rows, int longest_table);

/* Reserves the regions of a batch, which are kept between calls, to reuse their pages; -1 if memory runs out. */
int reserve_memory(Worker *w, size_t bytes, size_t entries);

/* Does both, for a worker that needs no other memory; -1 if it runs out. */
int prepare_worker(Worker *w, int tokens, int rows, int longest_table, size_t entries);
