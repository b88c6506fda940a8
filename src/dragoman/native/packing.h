/* Weights as they come, [outputs][inputs] in float, to how `Linear` holds them. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "linear.h"

/* One product's weights: output i is row from_row[i] of w (-1: nothing), input j is column from_column[j]. */
typedef struct {
    Linear *to;
    const float *w, *bias;
    int columns;
    int *from_row, *from_column;
    float factor; /* of the first `scaled` outputs */
    int scaled;
} Packing;

/* Where a linear's arrays will lie. */
static void linear_place(Linear *l, Region *r, int k, int n, int quantized) {
    l->k = padded(k);
    l->n = padded(n);
    size_t all = (size_t)l->k * l->n;
    l->w8 = NULL;
    l->wf = NULL;
    if (quantized)
        l->w8 = take(r, all);
    else
        l->wf = take(r, 4 * all);
    l->scale = take(r, 4 * (size_t)l->n);
    l->bias = take(r, 4 * (size_t)l->n);
    l->start = take(r, 4 * (size_t)l->n);
}

/* Sixteen outputs of a block: each quantized for itself, then laid side by side. */
static void pack_sixteen(const Packing *p, int first, float *row, int8_t *bytes) {
    const Linear *l = p->to;
    for (int c = 0; c < 16; c++) {
        int n = first + c, from = p->from_row[n];
        float factor = n < p->scaled ? p->factor : 1.0f;
        int8_t *mine = bytes + (size_t)c * l->k;
        const float *w = from >= 0 ? p->w + (size_t)from * p->columns : NULL;
        memset(row, 0, sizeof(float) * (size_t)l->k);
        if (w && p->from_column)
            for (int j = 0; j < l->k; j++) row[j] = p->from_column[j] < 0 ? 0.0f : w[p->from_column[j]];
        else if (w)
            memcpy(row, w, sizeof(float) * (size_t)p->columns);
        l->bias[n] = w && p->bias ? p->bias[from] * factor : 0.0f;
        if (l->wf) {
            float *to = l->wf + (size_t)(n / BLOCK) * BLOCK * l->k + n % BLOCK;
            for (int j = 0; j < l->k; j++) to[(size_t)j * BLOCK] = row[j] * factor;
            continue;
        }
        Rows q = {.q = mine, .scale = l->scale + n};
        quantize(row, 1, l->k, &q);
        int32_t sum = 0;
        for (int j = 0; j < l->k; j++) {
            mine[j] = (int8_t)(q.flipped ? mine[j] ^ -128 : mine[j]);
            sum += mine[j];
        }
        l->scale[n] *= factor;
        l->start[n] = -128 * sum;
    }
    if (l->wf) return;
    int8_t *to = l->w8 + (size_t)(first / BLOCK) * BLOCK * l->k;
    for (int g = 0; g < l->k / 4; g++)
        for (int c = 0; c < 16; c++) memcpy(to + four_at(g, first % BLOCK + c), bytes + (size_t)c * l->k + 4 * g, 4);
}

typedef struct {
    Packing *packings;
    int count, *first; /* sixteens before each packing */
    _Atomic int next;
} PackingList;

static void *pack_some(void *given) {
    PackingList *list = given;
    int widest = 0, at = 0;
    for (int i = 0; i < list->count; i++) widest = list->packings[i].to->k > widest ? list->packings[i].to->k : widest;
    float *row = aligned_alloc(64, sizeof(float) * (size_t)widest);
    int8_t *bytes = aligned_alloc(64, 16 * (size_t)widest);
    while (row && bytes) { /* who has no memory leaves the work to others */
        int mine = atomic_fetch_add(&list->next, 1);
        if (mine >= list->first[list->count]) break;
        while (mine >= list->first[at + 1]) at++;
        pack_sixteen(&list->packings[at], 16 * (mine - list->first[at]), row, bytes);
    }
    free(row);
    free(bytes);
    return NULL;
}

/* 0, or -1 where there is no memory for it. */
static int pack_all(Packing *packings, int count, int threads) {
    PackingList list = {packings, count, malloc(sizeof(int) * (size_t)(count + 1)), 0};
    if (!list.first) return -1;
    list.first[0] = 0;
    for (int i = 0; i < count; i++) list.first[i + 1] = list.first[i] + packings[i].to->n / 16;
    pthread_t others[16];
    int started = 0;
    while (started < threads - 1 && started < 16 && !pthread_create(&others[started], NULL, pack_some, &list)) started++;
    pack_some(&list);
    for (int i = 0; i < started; i++) pthread_join(others[i], NULL);
    int left = atomic_load(&list.next) < list.first[count];
    free(list.first);
    return left ? -1 : 0;
}
