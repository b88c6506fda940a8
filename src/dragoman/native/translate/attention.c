#include "attention.h"

#define SPAN 64 /* positions scored at a time */
#define POSITIONS_AT_ONCE (LANES == 16 ? 4 : 8) /* for a single query: enough independent sums */

Heads arrange_heads(int heads, int d_k, int d_v, int paired) {
    Heads h = {.heads = heads, .lanes = 1, .d_k = d_k, .d_v = d_v, .paired = paired};
    while (h.lanes < heads && h.lanes < LANES) h.lanes *= 2;
    h.groups = (heads + LANES - 1) / LANES;
    int each = LANES / h.lanes; /* channels of one head in a vector */
    h.key_vectors = paired ? 2 * ((d_k / 2 + each - 1) / each) : (d_k + each - 1) / each;
    h.value_vectors = (d_v + each - 1) / each;
    return h;
}

int interleaved_channel(const Heads *h, int at, int vectors, int size, int paired) {
    int lane = at % LANES, vector = at / LANES;
    int head = vector / vectors * LANES + lane % h->lanes;
    int each = LANES / h->lanes, of_group = vector % vectors;
    int i = paired ? 2 * (of_group / 2 * each + lane / h->lanes) + of_group % 2 : of_group * each + lane / h->lanes;
    return head < h->heads && i < size ? head * size + i : -1;
}

ALWAYS Floats load_vector(const char *at, int vector, const int half) {
    return half ? load_half((const uint16_t *)at + LANES * vector) : ((const Floats *)at)[vector];
}

/* Sums the lanes of each head, and leaves the sum in every lane. */
ALWAYS Floats sum_head_lanes(Floats x, int lanes) {
#if LANES == 4
    if (lanes <= 1) x += SHUFFLED(x, 1, 0, 3, 2);
    if (lanes <= 2) x += SHUFFLED(x, 2, 3, 0, 1);
#elif LANES == 8
    if (lanes <= 1) x += SHUFFLED(x, 1, 0, 3, 2, 5, 4, 7, 6);
    if (lanes <= 2) x += SHUFFLED(x, 2, 3, 0, 1, 6, 7, 4, 5);
    if (lanes <= 4) x += SHUFFLED(x, 4, 5, 6, 7, 0, 1, 2, 3);
#else
    if (lanes <= 1) x += SHUFFLED(x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    if (lanes <= 2) x += SHUFFLED(x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    if (lanes <= 4) x += SHUFFLED(x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    if (lanes <= 8) x += SHUFFLED(x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
#endif
    return x;
}

/* Prefetches what is `ahead` bytes after the keys: their values. */
ALWAYS void score_positions(const int nq, const int np, const int half, const Heads *h, const Floats *const *q,
                       const char *const *keys, size_t ahead, Floats (*scores)[SPAN], int at) {
    Floats sum[MAX_QUERIES][POSITIONS_AT_ONCE] = {};
    for (int v = 0; v < h->key_vectors; v++)
        for (int p = 0; p < np; p++) {
            Floats key = load_vector(keys[p], v, half);
            if (half) __builtin_prefetch(keys[p] + ahead + 2 * LANES * v, 0, 2); /* into the L2 cache: the L1 is too small */
            for (int i = 0; i < nq; i++) sum[i][p] = multiply_add(q[i][v], key, sum[i][p]);
        }
    for (int i = 0; i < nq; i++)
        for (int p = 0; p < np; p++) scores[i][at + p] = sum_head_lanes(sum[i][p], h->lanes);
}

ALWAYS void sum_values(const int nq, const int nv, const int half, int span, const char *const *values, int from,
                     Floats (*weights)[SPAN], Floats *const *out) {
    Floats sum[MAX_QUERIES][8];
    for (int i = 0; i < nq; i++)
        for (int v = 0; v < nv; v++) sum[i][v] = out[i][from + v];
    for (int p = 0; p < span; p++)
        for (int v = 0; v < nv; v++) {
            Floats value = load_vector(values[p], from + v, half);
            for (int i = 0; i < nq; i++) sum[i][v] = multiply_add(weights[i][p], value, sum[i][v]);
        }
    for (int i = 0; i < nq; i++)
        for (int v = 0; v < nv; v++) out[i][from + v] = sum[i][v];
}

/* One query and `span` positions, the first of which is `distance` tokens after it. The functions that take it are not inlined:
they round alike for any number of queries, and the loops without relative positions stay bare. */
typedef struct {
    int group, distance, span;
} Span;

ALWAYS int clamp_distance(int distance, int max_distance) {
    return distance < -max_distance ? -max_distance : distance > max_distance ? max_distance : distance;
}

/* The rows of a table that a span needs, each once, from the distance `first` on; returns their number. */
static int relative_rows(const RelativePositions *relative, const float *table, int vectors, int groups, const Span *s,
                         int first, const char **rows) {
    int count = clamp_distance(s->distance + s->span - 1, relative->max_distance) - first + 1;
    for (int j = 0; j < count; j++)
        rows[j] = (const char *)(table + ((size_t)(relative->max_distance + first + j) * groups + s->group) * vectors * LANES);
    return count;
}

/* Adds positions to the scores: minus a slope per token of distance, or q (k + a) instead of q k. */
static __attribute__((noinline)) void add_relative_scores(const RelativePositions *relative, const Heads *h,
                                                          const Span *s, const Floats *q, Floats *scores) {
    if (relative->slopes) {
        for (int p = 0; p < s->span; p++) scores[p] -= relative->slopes[s->group] * (float)abs(s->distance + p);
        return;
    }
    const char *rows[SPAN];
    Floats near[1][SPAN];
    int first = clamp_distance(s->distance, relative->max_distance), p = 0;
    int count = relative_rows(relative, relative->keys, h->key_vectors, h->groups, s, first, rows);
    for (; p + POSITIONS_AT_ONCE <= count; p += POSITIONS_AT_ONCE) score_positions(1, POSITIONS_AT_ONCE, 0, h, &q, rows + p, 0, near, p);
    for (; p < count; p++) score_positions(1, 1, 0, h, &q, rows + p, 0, near, p);
    for (p = 0; p < s->span; p++) scores[p] += near[0][clamp_distance(s->distance + p, relative->max_distance) - first];
}

/* Adds each distance's row of the value table, times the weight of all positions at that distance. */
static __attribute__((noinline)) void add_relative_values(const RelativePositions *relative, const Heads *h,
                                                          const Span *s, const Floats *weights, Floats *out) {
    if (!relative->values) return;
    const char *rows[SPAN];
    Floats near[1][SPAN];
    int first = clamp_distance(s->distance, relative->max_distance), v = 0;
    int count = relative_rows(relative, relative->values, h->value_vectors, h->groups, s, first, rows);
    for (int j = 0; j < count; j++) near[0][j] = splat(0.0f);
    for (int p = 0; p < s->span; p++) near[0][clamp_distance(s->distance + p, relative->max_distance) - first] += weights[p];
    for (; v + 8 <= h->value_vectors; v += 8) sum_values(1, 8, 0, count, rows, v, near, &out);
    for (; v < h->value_vectors; v++) sum_values(1, 1, 0, count, rows, v, near, &out);
}

ALWAYS void attend_queries(const int nq, const int half, const int relative, const Heads *h, const float *const *queries,
                      float *const *outputs, Floats *const *weights, const KeyValues *kv) {
    const int np = nq == 1 ? POSITIONS_AT_ONCE : 2, nv = nq == 1 ? 8 : SUMS / 4;
    const size_t each = half ? 2 : 4;
    for (int g = 0; g < h->groups; g++) {
        const Floats *q[MAX_QUERIES];
        Floats *out[MAX_QUERIES], top[MAX_QUERIES], total[MAX_QUERIES], scores[MAX_QUERIES][SPAN];
        const char *rows[SPAN];
        for (int i = 0; i < nq; i++) {
            q[i] = (const Floats *)queries[i] + g * h->key_vectors;
            out[i] = (Floats *)outputs[i] + g * h->value_vectors;
            top[i] = splat(-1e30f);
            total[i] = splat(0.0f);
            for (int v = 0; v < h->value_vectors; v++) out[i][v] = splat(0.0f);
        }
        for (int first = 0; first < kv->count; first += SPAN) {
            int span = kv->count - first < SPAN ? kv->count - first : SPAN, p = 0;
            for (int j = 0; j < span; j++)
                rows[j] = kv->base + (size_t)kv->table[first + j] * kv->stride + g * h->key_vectors * LANES * each;
            size_t values = kv->values + (size_t)g * (h->value_vectors - h->key_vectors) * LANES * each;
            for (; p + np <= span; p += np) score_positions(nq, np, half, h, q, rows + p, values, scores, p);
            for (; p < span; p++) score_positions(nq, 1, half, h, q, rows + p, values, scores, p);
            if (relative)
                for (int i = 0; i < nq; i++)
                    add_relative_scores(kv->relative, h, &(Span){g, first - kv->first_query - i, span}, q[i], scores[i]);
            for (int i = 0; i < nq; i++) {
                Floats new_top = top[i];
                for (p = 0; p < span; p++) new_top = larger(new_top, scores[i][p]);
                if (first) {
                    Floats rescale = exp_of(top[i] - new_top);
                    total[i] *= rescale;
                    for (int v = 0; v < h->value_vectors; v++) out[i][v] *= rescale;
                    for (p = 0; weights && p < first; p++) weights[i][(size_t)g * kv->count + p] *= rescale;
                }
                top[i] = new_top;
                for (p = 0; p < span; p++) {
                    scores[i][p] = exp_of(scores[i][p] - new_top);
                    total[i] += scores[i][p];
                }
                for (p = 0; weights && p < span; p++) weights[i][(size_t)g * kv->count + first + p] = scores[i][p];
            }
            for (int j = 0; j < span; j++) rows[j] += values;
            int v = 0;
            for (; v + nv <= h->value_vectors; v += nv) sum_values(nq, nv, half, span, rows, v, scores, out);
            for (; v < h->value_vectors; v++) sum_values(nq, 1, half, span, rows, v, scores, out);
            if (relative)
                for (int i = 0; i < nq; i++)
                    add_relative_values(kv->relative, h, &(Span){g, first - kv->first_query - i, span}, scores[i], out[i]);
        }
        for (int i = 0; i < nq; i++) {
            Floats share = 1.0f / total[i];
            for (int v = 0; v < h->value_vectors; v++) out[i][v] *= share;
            for (int p = 0; weights && p < kv->count; p++) weights[i][(size_t)g * kv->count + p] *= share;
        }
    }
}

void attend_relative(int nq, const Heads *h, const float *const *queries, float *const *outputs, Floats *const *weights,
                     const KeyValues *kv) {
    if (nq == 4) attend_queries(4, 0, 1, h, queries, outputs, weights, kv);
    if (nq == 3) attend_queries(3, 0, 1, h, queries, outputs, weights, kv);
    if (nq == 2) attend_queries(2, 0, 1, h, queries, outputs, weights, kv);
    if (nq == 1 && HALF && kv->half) attend_queries(1, HALF, 1, h, queries, outputs, weights, kv);
    if (nq == 1 && !(HALF && kv->half)) attend_queries(1, 0, 1, h, queries, outputs, weights, kv);
}

void attend(int nq, const Heads *h, const float *const *queries, float *const *outputs, Floats *const *weights,
            const KeyValues *kv) {
    int half = HALF && kv->half;
    if (nq == 4 && half) attend_queries(4, 1, 0, h, queries, outputs, weights, kv);
    if (nq == 4 && !half) attend_queries(4, 0, 0, h, queries, outputs, weights, kv);
    if (nq == 3 && half) attend_queries(3, 1, 0, h, queries, outputs, weights, kv);
    if (nq == 3 && !half) attend_queries(3, 0, 0, h, queries, outputs, weights, kv);
    if (nq == 2 && half) attend_queries(2, 1, 0, h, queries, outputs, weights, kv);
    if (nq == 2 && !half) attend_queries(2, 0, 0, h, queries, outputs, weights, kv);
    if (nq == 1 && half) attend_queries(1, HALF, 0, h, queries, outputs, weights, kv);
    if (nq == 1 && !half) attend_queries(1, 0, 0, h, queries, outputs, weights, kv);
}
