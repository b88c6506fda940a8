#include "packing.h"
#include <pthread.h>
#include <stdatomic.h>

void linear_alloc(Linear *l, Region *r, int k, int n, int quantized) {
    l->k = padded_size(k);
    l->n = padded_size(n);
    size_t all = (size_t)l->k * l->n;
    l->w8 = NULL;
    l->wf = NULL;
    if (quantized)
        l->w8 = region_alloc(r, all);
    else
        l->wf = region_alloc(r, 4 * all);
    l->scale = region_alloc(r, 4 * (size_t)l->n);
    l->bias = region_alloc(r, 4 * (size_t)l->n);
    l->correction = region_alloc(r, 4 * (size_t)l->n);
}

/* Packs sixteen outputs of a block: each is quantized separately, then they are interleaved. */
static void pack_outputs(const Packing *p, int first, float *row, int8_t *bytes) {
    const Linear *l = p->to;
    for (int c = 0; c < 16; c++) {
        int n = first + c, from = p->from_row[n];
        float factor = n < p->scaled ? p->factor : 1.0f;
        int8_t *mine = bytes + (size_t)c * l->k;
        const float *w = from >= 0 && p->w ? p->w + (size_t)from * p->columns : NULL;
        const int8_t *w8 = from >= 0 && p->w8 ? p->w8 + (size_t)from * p->columns : NULL;
        l->bias[n] = from >= 0 && p->bias ? p->bias[from] * factor : 0.0f;
        if (w8 && !l->wf) { /* already as it is needed, but for the order */
            memset(mine, 0, (size_t)l->k);
            int32_t sum = 0;
            for (int j = 0; j < (p->from_column ? l->k : p->columns); j++) {
                int column = p->from_column ? p->from_column[j] : j;
                if (column >= 0) sum += mine[j] = w8[column];
            }
            l->scale[n] = p->row_scales[from] * factor;
            l->correction[n] = -128 * sum;
            continue;
        }
        memset(row, 0, sizeof(float) * (size_t)l->k);
        for (int j = 0; w8 && j < (p->from_column ? l->k : p->columns); j++) {
            int column = p->from_column ? p->from_column[j] : j;
            if (column >= 0) row[j] = (float)w8[column] * p->row_scales[from];
        }
        if (w && p->from_column)
            for (int j = 0; j < l->k; j++) row[j] = p->from_column[j] < 0 ? 0.0f : w[p->from_column[j]];
        else if (w)
            memcpy(row, w, sizeof(float) * (size_t)p->columns);
        if (l->wf) {
            float *to = l->wf + (size_t)(n / BLOCK) * BLOCK * l->k + n % BLOCK;
            for (int j = 0; j < l->k; j++) to[(size_t)j * BLOCK] = row[j] * factor;
            continue;
        }
        l->scale[n] = quantize_row(row, l->k, mine) * factor;
        int32_t sum = 0;
        for (int j = 0; j < l->k; j++) sum += mine[j];
        l->correction[n] = -128 * sum;
    }
    if (l->wf) return;
    int8_t *to = l->w8 + (size_t)(first / BLOCK) * BLOCK * l->k;
    for (int g = 0; g < l->k / 4; g++)
        for (int c = 0; c < 16; c++) memcpy(to + weight_offset(g, first % BLOCK + c), bytes + (size_t)c * l->k + 4 * g, 4);
}

typedef struct {
    Packing *packings;
    int count, *first; /* sixteens before each packing */
    _Atomic int next;
} PackingQueue;

static void *pack_worker(void *argument) {
    PackingQueue *queue = argument;
    int widest = 0, at = 0;
    for (int i = 0; i < queue->count; i++) widest = queue->packings[i].to->k > widest ? queue->packings[i].to->k : widest;
    float *row = alloc_aligned(sizeof(float) * (size_t)widest);
    int8_t *bytes = alloc_aligned(16 * (size_t)widest);
    while (row && bytes) { /* a thread without memory leaves its work to the others */
        int mine = atomic_fetch_add(&queue->next, 1);
        if (mine >= queue->first[queue->count]) break;
        while (mine >= queue->first[at + 1]) at++;
        pack_outputs(&queue->packings[at], 16 * (mine - queue->first[at]), row, bytes);
    }
    free_aligned(row);
    free_aligned(bytes);
    return NULL;
}

int pack_all(Packing *packings, int count, int threads) {
    PackingQueue queue = {packings, count, malloc(sizeof(int) * (size_t)(count + 1)), 0};
    if (!queue.first) return -1;
    queue.first[0] = 0;
    for (int i = 0; i < count; i++) queue.first[i + 1] = queue.first[i] + packings[i].to->n / 16;
    pthread_t others[16];
    int started = 0;
    while (started < threads - 1 && started < 16 && !pthread_create(&others[started], NULL, pack_worker, &queue)) started++;
    pack_worker(&queue);
    for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
    int left = atomic_load(&queue.next) < queue.first[count];
    free(queue.first);
    return left ? -1 : 0;
}
