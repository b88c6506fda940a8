#include "layers.h"
#include <stdlib.h>
#include <string.h>
#include "kernels/int8_kernels.h"

Worker *worker_new(const Model *m) {
    Worker *w = alloc_aligned(sizeof *w);
    if (!w) return NULL;
    memset(w, 0, sizeof *w);
    w->model = m;
    w->half = HALF && m->config.quantized;
    w->entry_bytes = (size_t)(key_floats(&m->heads) + value_floats(&m->heads)) * (w->half ? 2 : 4);
    return w;
}

void worker_free(Worker *w) {
    if (!w) return;
    region_close(&w->region);
    region_close(&w->cache_region);
    free_aligned(w->positions);
    free_aligned(w);
}

void allocate_activations(Worker *w, int tokens, int rows, int longest_table) {
    const Model *m = w->model;
    const Layer *l = &m->encoder[0]; /* the decoder's are as large */
    int recurrent = m->config.ssru != 0, n_projected = l->qkv.n;
    if (recurrent && n_projected < 2 * m->width) n_projected = 2 * m->width;
    Region *r = &w->region;
    size_t max_rows = (size_t)(tokens > rows ? tokens : rows) + ROW_BLOCK, width = (size_t)m->width, floats = sizeof(float);
    size_t feed_forward_rows = max_rows < FEED_FORWARD_ROWS + ROW_BLOCK ? max_rows : FEED_FORWARD_ROWS + ROW_BLOCK;
    int widest = m->width > l->output.k ? m->width : l->output.k;
    w->x = region_alloc(r, floats * max_rows * width);
    w->h = region_alloc(r, floats * max_rows * width);
    w->projected = region_alloc(r, floats * max_rows * (size_t)n_projected);
    w->attended = region_alloc(r, floats * max_rows * (size_t)l->output.k);
    w->inner = region_alloc(r, floats * feed_forward_rows * (size_t)l->inner.n);
    w->input.scale = region_alloc(r, floats * max_rows);
    w->input.q = region_alloc(r, max_rows * row_pitch(widest) + feed_forward_rows * row_pitch(l->inner.n));
    w->iota = region_alloc(r, 4 * (size_t)longest_table);
    w->tokens = (size_t)tokens;
    w->memory_keys_values = region_alloc(r, w->tokens * w->entry_bytes * (size_t)m->config.decoder_layers);
    w->cell_rows = 2 * (size_t)rows; /* of this step and the one before */
    w->cells = region_alloc(r, recurrent ? floats * w->cell_rows * width * (size_t)m->config.decoder_layers : 0);
    if (!r->start) return;
    memset(w->attended, 0, floats * max_rows * (size_t)l->output.k);
    for (int i = 0; i < longest_table; i++) w->iota[i] = i;
}

static int region_reserve(Region *r, size_t bytes) {
    if (r->start && r->size >= bytes) return 0;
    region_close(r);
    return region_open(r, bytes);
}

int reserve_memory(Worker *w, size_t bytes, size_t entries) {
    w->entries = entries;
    size_t cache_bytes = w->model->config.ssru ? 0 : entries * w->entry_bytes * (size_t)w->model->config.decoder_layers;
    if (region_reserve(&w->region, bytes) || region_reserve(&w->cache_region, cache_bytes)) return -1;
    w->cache = w->cache_region.start;
    return 0;
}

int prepare_worker(Worker *w, int tokens, int rows, int longest_table, size_t entries) {
    Region kept = w->region;
    w->region = (Region){0};
    allocate_activations(w, tokens, rows, longest_table);
    size_t bytes = w->region.used;
    w->region = kept;
    if (reserve_memory(w, bytes, entries)) return -1;
    w->region.used = 0;
    allocate_activations(w, tokens, rows, longest_table);
    return 0;
}
