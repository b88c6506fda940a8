#include "vocabulary.h"
#include <math.h>
#include <string.h>

#define MAX_ABOVE_REFERENCE 40.0f /* a logit further above a part's reference replaces it */

static void keep_token(BestTokens *b, int keep, float value, int32_t id) {
    int at = b->count < keep ? b->count++ : keep - 1;
    while (at > 0 && (b->best[at - 1].value < value || (b->best[at - 1].value == value && b->best[at - 1].id > id))) {
        b->best[at] = b->best[at - 1];
        at--;
    }
    b->best[at] = (ScoredToken){value, id};
    if (b->count == keep) b->threshold = b->best[keep - 1].value;
}

static int is_banned(const int32_t *banned, int32_t id) {
    for (int i = 1; i <= banned[0]; i++)
        if (banned[i] == id) return 1;
    return 0;
}

int is_excluded(const VocabularyScan *s, int row, int32_t id) {
    return is_banned(s->banned[row], id) || (s->forbids && s->forbids(s->search, row, id));
}

/* The rare case: some logits are among the best so far, or far above the part's reference. */
static __attribute__((noinline)) void update_best(const VocabularyScan *s, int row, BestTokens *b, PartSum *p,
                                                  const float *logits, int32_t id) {
    for (int i = 0; i < LANES; i++) {
        if (logits[i] > p->reference + MAX_ABOVE_REFERENCE) {
            p->sum *= exp_of(splat(p->reference - logits[i]));
            p->reference = logits[i];
        }
        if (logits[i] > b->threshold && !is_excluded(s, row, id + i)) keep_token(b, s->keep, logits[i], id + i);
    }
}

ALWAYS float bound_of(const BestTokens *b, const PartSum *p) {
    float high = p->reference + MAX_ABOVE_REFERENCE;
    return b->threshold < high ? b->threshold : high;
}

/* Logits of one block, [rows][BLOCK], with -infinity after those of the vocabulary. */
static void logits_of_block(const VocabularyScan *s, int first, int rows, int block, float *logits) {
    matmul_block(s->projection, s->in, first, rows, block, logits);
    int valid = s->vocabulary - block * BLOCK;
    if (valid < BLOCK)
        for (int r = 0; r < rows; r++)
            for (int c = valid > 0 ? valid : 0; c < BLOCK; c++) logits[r * BLOCK + c] = -INFINITY;
}

typedef struct {
    const VocabularyScan *s;
    float *to;
    size_t pitch;
} Store;

static void store_part(void *argument, int number, int thread) {
    (void)thread;
    const Store *a = argument;
    const VocabularyScan *s = a->s;
    _Alignas(64) float logits[ROW_BLOCK * BLOCK];
    int blocks = s->projection->n / BLOCK;
    for (int block = blocks * number / PARTS; block < blocks * (number + 1) / PARTS; block++)
        for (int r0 = 0; r0 < s->rows; r0 += ROW_BLOCK) {
            int rows = s->rows - r0 < ROW_BLOCK ? s->rows - r0 : ROW_BLOCK;
            logits_of_block(s, r0, rows, block, logits);
            for (int r = 0; r < rows; r++)
                memcpy(a->to + (size_t)(r0 + r) * a->pitch + block * BLOCK, logits + r * BLOCK, sizeof(float) * BLOCK);
        }
}

void store_logits(const VocabularyScan *s, ThreadPool *pool, float *to, size_t pitch) {
    parallel_for(pool, PARTS, store_part, &(Store){s, to, pitch});
}

static void scan_part(void *argument, int number, int thread) {
    const VocabularyScan *s = argument;
    _Alignas(64) float logits[ROW_BLOCK * BLOCK];
    int blocks = s->projection->n / BLOCK;
    int first = blocks * number / PARTS, last = blocks * (number + 1) / PARTS;
    for (int block = first; block < last; block++)
        for (int r0 = 0; r0 < s->rows; r0 += ROW_BLOCK) {
            int rows = s->rows - r0 < ROW_BLOCK ? s->rows - r0 : ROW_BLOCK;
            if (!s->stored) logits_of_block(s, r0, rows, block, logits);
            for (int r = 0; r < rows; r++) {
                PartSum *p = &s->part[number * s->rows + r0 + r];
                BestTokens *b = &s->best[thread * s->rows + r0 + r];
                const float *at = s->stored ? s->stored + (size_t)(r0 + r) * s->pitch + block * BLOCK : logits + r * BLOCK;
                if (block == first) *p = (PartSum){.sum = splat(0.0f), .reference = top_of(*(const Floats *)at)};
                Floats sum = p->sum, bound = splat(bound_of(b, p));
                for (int c = 0; c < BLOCK; c += LANES) {
                    Floats x = *(const Floats *)(at + c);
                    if (__builtin_expect(over(x, bound), 0)) {
                        p->sum = sum;
                        update_best(s, r0 + r, b, p, at + c, block * BLOCK + c);
                        sum = p->sum, bound = splat(bound_of(b, p));
                    }
                    sum += exp_of(x - p->reference);
                }
                p->sum = sum;
            }
        }
}

float log_normalizer(const VocabularyScan *s, int row) {
    float top = -INFINITY, total = 0.0f;
    for (int i = 0; i < PARTS; i++) {
        float reference = s->part[i * s->rows + row].reference;
        top = reference > top ? reference : top;
    }
    for (int i = 0; i < PARTS; i++) {
        const PartSum *p = &s->part[i * s->rows + row];
        if (p->reference > -INFINITY) total += sum_of(p->sum) * expf(p->reference - top);
    }
    return top + logf(total);
}

float logit_of(const VocabularyScan *s, int row, int32_t id) {
    if (s->stored) return s->stored[(size_t)row * s->pitch + (size_t)id];
    const Linear *l = s->projection;
    size_t block = (size_t)(id / BLOCK) * BLOCK * l->k;
    int column = id % BLOCK;
    if (l->wf) {
        float sum = 0.0f;
        const float *x = s->in->x + (size_t)row * l->k;
        for (int i = 0; i < l->k; i++) sum = MULTIPLY_ADD(sum, x[i], l->wf[block + (size_t)i * BLOCK + column]);
        return sum + l->bias[id];
    }
    int32_t sum = 0;
    const int8_t *a = s->in->q + (size_t)row * row_pitch(l->k);
    for (int g = 0; g < l->k / 4; g++) {
        const int8_t *w = l->w8 + block + weight_offset(g, column);
        for (int i = 0; i < 4; i++) sum += activation_of(s->in, a, 4 * g + i) * w[i];
    }
    return MULTIPLY_ADD(l->bias[id], (float)sum, s->in->scale[row] * l->scale[id]);
}

void scan_vocabulary(VocabularyScan *s, ThreadPool *pool) {
    int threads = pool->size;
    for (int i = 0; i < threads * s->rows; i++) {
        s->best[i].count = 0;
        s->best[i].threshold = -INFINITY;
    }
    for (int i = 0; i < PARTS * s->rows; i++) s->part[i] = (PartSum){.sum = splat(0.0f), .reference = -INFINITY};
    parallel_for(pool, PARTS, scan_part, s);
    for (int m = 1; m < threads; m++)
        for (int r = 0; r < s->rows; r++) {
            BestTokens *to = &s->best[r], *from = &s->best[m * s->rows + r];
            for (int i = 0; i < from->count; i++) {
                ScoredToken p = from->best[i];
                int fits = to->count < s->keep || p.value > to->threshold ||
                           (p.value == to->threshold && p.id < to->best[s->keep - 1].id);
                if (fits) keep_token(to, s->keep, p.value, p.id);
            }
        }
}
