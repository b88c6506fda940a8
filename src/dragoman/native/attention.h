/* Scaled dot-product attention of a few queries to the same positions, all heads at once.

The channels of queries, keys and values are interleaved, so that the lanes of a vector are different heads: with 8 heads
a vector of 16 lanes holds channels i and i + 1 of each. Scores then need no sums across lanes but one at the end, and the softmax
of all heads is one vector. Weights are permuted when they are packed, so that products come out in this order.
Where pairs of channels are turned (positions.h), those of a pair stand in the same lane of two vectors, side by side.
Positions are taken 64 at a time, and what was summed before is scaled when a larger score appears. */
#pragma once
#include "vectors.h"

#define SPAN 64     /* positions that are scored before they are summed */
#define TOGETHER 4  /* queries that share what is loaded */
#define ALONE (LANES == 16 ? 4 : 8) /* positions that one query by itself looks at together: enough sums under way */

typedef struct {
    int heads, lanes, groups; /* groups of up to LANES heads, each over `lanes` lanes (a power of two) */
    int d_k, d_v;
    int key_vectors, value_vectors; /* of one group */
    int paired;
} Heads;

static Heads heads_of(int heads, int d_k, int d_v, int paired) {
    Heads h = {.heads = heads, .lanes = 1, .d_k = d_k, .d_v = d_v, .paired = paired};
    while (h.lanes < heads && h.lanes < LANES) h.lanes *= 2;
    h.groups = (heads + LANES - 1) / LANES;
    int each = LANES / h.lanes; /* channels of one head in a vector */
    h.key_vectors = paired ? 2 * ((d_k / 2 + each - 1) / each) : (d_k + each - 1) / each;
    h.value_vectors = (d_v + each - 1) / each;
    return h;
}

ALWAYS int key_floats(const Heads *h) { return h->groups * h->key_vectors * LANES; }
ALWAYS int value_floats(const Heads *h) { return h->groups * h->value_vectors * LANES; }

/* Which channel of the model's own order stands at place `at` of the interleaved one; -1 for filling. */
static int channel_at(const Heads *h, int at, int vectors, int size, int paired) {
    int lane = at % LANES, vector = at / LANES;
    int head = vector / vectors * LANES + lane % h->lanes;
    int each = LANES / h->lanes, of_group = vector % vectors;
    int i = paired ? 2 * (of_group / 2 * each + lane / h->lanes) + of_group % 2 : of_group * each + lane / h->lanes;
    return head < h->heads && i < size ? head * size + i : -1;
}

/* What a layer is told of distances, if anything. */
typedef struct {
    const Floats *slopes; /* a vector for each group: by how much a head scores lower what stands one place farther */
    const float *keys, *values; /* a row for each distance from -farthest to farthest: what it adds to a key, a value */
    int farthest;
} Told;

/* Where the positions lie: at base + table[position] * stride, a key and, `values` bytes after it, a value. */
typedef struct {
    const char *base;
    const int32_t *table;
    size_t stride, values;
    int count, half;
    const Told *told; /* NULL: nothing */
    int asking;       /* where the first query stands, the others after it */
} Past;

ALWAYS Floats past_vector(const char *at, int vector, const int half) {
    return half ? load_half((const uint16_t *)at + LANES * vector) : ((const Floats *)at)[vector];
}

/* Sums the lanes that belong to one head, and leaves the sum in each of them. */
ALWAYS Floats fold(Floats x, int lanes) {
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

ALWAYS void score_some(const int nq, const int np, const int half, const Heads *h, const Floats *const *q,
                       const char *const *keys, Floats (*scores)[SPAN], int at) {
    Floats sum[TOGETHER][ALONE] = {};
    for (int v = 0; v < h->key_vectors; v++)
        for (int p = 0; p < np; p++) {
            Floats key = past_vector(keys[p], v, half);
            for (int i = 0; i < nq; i++) sum[i][p] += q[i][v] * key;
        }
    for (int i = 0; i < nq; i++)
        for (int p = 0; p < np; p++) scores[i][at + p] = fold(sum[i][p], h->lanes);
}

ALWAYS void mix_some(const int nq, const int nv, const int half, int span, const char *const *values, int from,
                     Floats (*weights)[SPAN], Floats *const *out) {
    Floats sum[TOGETHER][8];
    for (int i = 0; i < nq; i++)
        for (int v = 0; v < nv; v++) sum[i][v] = out[i][from + v];
    for (int p = 0; p < span; p++)
        for (int v = 0; v < nv; v++) {
            Floats value = past_vector(values[p], from + v, half);
            for (int i = 0; i < nq; i++) sum[i][v] += weights[i][p] * value;
        }
    for (int i = 0; i < nq; i++)
        for (int v = 0; v < nv; v++) out[i][from + v] = sum[i][v];
}

/* One query and `span` positions, the first of which stands `away` places after it. What is done with them is not inlined,
so that it rounds alike for any number of queries; and the loops of those who are told nothing stay bare. */
typedef struct {
    int group, away, span;
} Stretch;

ALWAYS int within(int distance, int farthest) {
    return distance < -farthest ? -farthest : distance > farthest ? farthest : distance;
}

/* The rows of a table that a stretch needs, each once, and their number; the first is that of the distance `first`. */
static int rows_of(const Told *told, const float *table, int vectors, int groups, const Stretch *s, int first, const char **rows) {
    int count = within(s->away + s->span - 1, told->farthest) - first + 1;
    for (int j = 0; j < count; j++)
        rows[j] = (const char *)(table + ((size_t)(told->farthest + first + j) * groups + s->group) * vectors * LANES);
    return count;
}

/* Scores by content become scores by content and distance: less a slope for each place, or q (k + a) instead of q k. */
static __attribute__((noinline)) void tell_scores(const Told *told, const Heads *h, const Stretch *s, const Floats *q, Floats *scores) {
    if (told->slopes) {
        for (int p = 0; p < s->span; p++) scores[p] -= told->slopes[s->group] * (float)abs(s->away + p);
        return;
    }
    const char *rows[SPAN];
    Floats near[1][SPAN];
    int first = within(s->away, told->farthest), p = 0;
    int count = rows_of(told, told->keys, h->key_vectors, h->groups, s, first, rows);
    for (; p + ALONE <= count; p += ALONE) score_some(1, ALONE, 0, h, &q, rows + p, near, p);
    for (; p < count; p++) score_some(1, 1, 0, h, &q, rows + p, near, p);
    for (p = 0; p < s->span; p++) scores[p] += near[0][within(s->away + p, told->farthest) - first];
}

/* What the distances add to the values, each times the weight of all positions that far away. */
static __attribute__((noinline)) void tell_values(const Told *told, const Heads *h, const Stretch *s, const Floats *weights, Floats *out) {
    if (!told->values) return;
    const char *rows[SPAN];
    Floats near[1][SPAN];
    int first = within(s->away, told->farthest), v = 0;
    int count = rows_of(told, told->values, h->value_vectors, h->groups, s, first, rows);
    for (int j = 0; j < count; j++) near[0][j] = splat(0.0f);
    for (int p = 0; p < s->span; p++) near[0][within(s->away + p, told->farthest) - first] += weights[p];
    for (; v + 8 <= h->value_vectors; v += 8) mix_some(1, 8, 0, count, rows, v, near, &out);
    for (; v < h->value_vectors; v++) mix_some(1, 1, 0, count, rows, v, near, &out);
}

ALWAYS void attend_to(const int nq, const int half, const int told, const Heads *h, const float *const *queries,
                      float *const *outputs, const Past *past) {
    const int np = nq == 1 ? ALONE : 2, nv = nq == 1 ? 8 : SUMS / 4;
    const size_t each = half ? 2 : 4;
    for (int g = 0; g < h->groups; g++) {
        const Floats *q[TOGETHER];
        Floats *out[TOGETHER], most[TOGETHER], total[TOGETHER], scores[TOGETHER][SPAN];
        const char *rows[SPAN];
        for (int i = 0; i < nq; i++) {
            q[i] = (const Floats *)queries[i] + g * h->key_vectors;
            out[i] = (Floats *)outputs[i] + g * h->value_vectors;
            most[i] = splat(-1e30f);
            total[i] = splat(0.0f);
            for (int v = 0; v < h->value_vectors; v++) out[i][v] = splat(0.0f);
        }
        for (int first = 0; first < past->count; first += SPAN) {
            int span = past->count - first < SPAN ? past->count - first : SPAN, p = 0;
            for (int j = 0; j < span; j++)
                rows[j] = past->base + (size_t)past->table[first + j] * past->stride + g * h->key_vectors * LANES * each;
            for (; p + np <= span; p += np) score_some(nq, np, half, h, q, rows + p, scores, p);
            for (; p < span; p++) score_some(nq, 1, half, h, q, rows + p, scores, p);
            if (told)
                for (int i = 0; i < nq; i++)
                    tell_scores(past->told, h, &(Stretch){g, first - past->asking - i, span}, q[i], scores[i]);
            for (int i = 0; i < nq; i++) {
                Floats top = most[i];
                for (p = 0; p < span; p++) top = larger(top, scores[i][p]);
                if (first) {
                    Floats less = exp_of(most[i] - top);
                    total[i] *= less;
                    for (int v = 0; v < h->value_vectors; v++) out[i][v] *= less;
                }
                most[i] = top;
                for (p = 0; p < span; p++) {
                    scores[i][p] = exp_of(scores[i][p] - top);
                    total[i] += scores[i][p];
                }
            }
            size_t shift = past->values + (size_t)g * (h->value_vectors - h->key_vectors) * LANES * each;
            for (int j = 0; j < span; j++) rows[j] += shift;
            int v = 0;
            for (; v + nv <= h->value_vectors; v += nv) mix_some(nq, nv, half, span, rows, v, scores, out);
            for (; v < h->value_vectors; v++) mix_some(nq, 1, half, span, rows, v, scores, out);
            if (told)
                for (int i = 0; i < nq; i++)
                    tell_values(past->told, h, &(Stretch){g, first - past->asking - i, span}, scores[i], out[i]);
        }
        for (int i = 0; i < nq; i++) {
            Floats share = 1.0f / total[i];
            for (int v = 0; v < h->value_vectors; v++) out[i][v] *= share;
        }
    }
}

/* Self-attention that is told distances: of a few tokens of the source, or of one row to its past. */
static void attend_told(int nq, const Heads *h, const float *const *queries, float *const *outputs, const Past *past) {
    if (nq == 4) attend_to(4, 0, 1, h, queries, outputs, past);
    if (nq == 3) attend_to(3, 0, 1, h, queries, outputs, past);
    if (nq == 2) attend_to(2, 0, 1, h, queries, outputs, past);
    if (nq == 1 && HALF && past->half) attend_to(1, HALF, 1, h, queries, outputs, past);
    if (nq == 1 && !(HALF && past->half)) attend_to(1, 0, 1, h, queries, outputs, past);
}

/* softmax(q k^T) v for up to TOGETHER queries; the queries come scaled by 1 / sqrt(d_k). */
static void attend(int nq, const Heads *h, const float *const *queries, float *const *outputs, const Past *past) {
    int half = HALF && past->half;
    if (nq == 4 && half) attend_to(4, 1, 0, h, queries, outputs, past);
    if (nq == 4 && !half) attend_to(4, 0, 0, h, queries, outputs, past);
    if (nq == 3 && half) attend_to(3, 1, 0, h, queries, outputs, past);
    if (nq == 3 && !half) attend_to(3, 0, 0, h, queries, outputs, past);
    if (nq == 2 && half) attend_to(2, 1, 0, h, queries, outputs, past);
    if (nq == 2 && !half) attend_to(2, 0, 0, h, queries, outputs, past);
    if (nq == 1 && half) attend_to(1, HALF, 0, h, queries, outputs, past);
    if (nq == 1 && !half) attend_to(1, 0, 0, h, queries, outputs, past);
}
