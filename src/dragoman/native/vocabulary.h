/* The projection to the vocabulary, its softmax and its best tokens in one pass; logits are never written down.

The vocabulary is cut into PARTS fixed parts, each with a sum of its own, so that threads may share the work and the
sums still come out the same. */
#pragma once
#include "linear.h"
#include "team.h"

#define PARTS 8
#define STEEP 40.0f /* a logit so far above a part's reference moves the reference */

typedef struct {
    float value;
    int32_t id;
} Token;

/* The best tokens of one row that one member has seen, best first; of two alike the lower id. */
typedef struct {
    int count;
    float least; /* a logit must be over this to come in */
    Token *best;
} Best;

/* Sum of e^(logit - reference) over a part. */
typedef struct {
    Floats sum;
    float reference;
} Part;

typedef struct {
    const Linear *projection;
    const Rows *in;
    int rows, vocabulary, keep;
    Best *best; /* [member][row] */
    Part *part; /* [part][row] */
    const int32_t *const *banned; /* for each row: how many, and then the ids that cannot follow */
} Scan;

static void keep_token(Best *b, int keep, float value, int32_t id) {
    int at = b->count < keep ? b->count++ : keep - 1;
    while (at > 0 && (b->best[at - 1].value < value || (b->best[at - 1].value == value && b->best[at - 1].id > id))) {
        b->best[at] = b->best[at - 1];
        at--;
    }
    b->best[at] = (Token){value, id};
    if (b->count == keep) b->least = b->best[keep - 1].value;
}

static int is_banned(const int32_t *banned, int32_t id) {
    for (int i = 1; i <= banned[0]; i++)
        if (banned[i] == id) return 1;
    return 0;
}

/* What rarely happens: some of sixteen logits are among the best so far, or far above the part's reference. */
static __attribute__((noinline)) void look_closer(const Scan *s, int row, Best *b, Part *p, const float *logits, int32_t id) {
    for (int i = 0; i < LANES; i++) {
        if (logits[i] > p->reference + STEEP) {
            p->sum *= exp_of(splat(p->reference - logits[i]));
            p->reference = logits[i];
        }
        if (logits[i] > b->least && !is_banned(s->banned[row], id + i)) keep_token(b, s->keep, logits[i], id + i);
    }
}

ALWAYS float bar_of(const Best *b, const Part *p) {
    float steep = p->reference + STEEP;
    return b->least < steep ? b->least : steep;
}

static void scan_part(void *given, int number, int member) {
    const Scan *s = given;
    _Alignas(64) float logits[TILE * BLOCK];
    int blocks = s->projection->n / BLOCK;
    int first = blocks * number / PARTS, last = blocks * (number + 1) / PARTS;
    for (int block = first; block < last; block++)
        for (int r0 = 0; r0 < s->rows; r0 += TILE) {
            int rows = s->rows - r0 < TILE ? s->rows - r0 : TILE;
            product_block(s->projection, s->in, r0, rows, block, logits);
            int filled = s->vocabulary - block * BLOCK;
            if (filled < BLOCK)
                for (int r = 0; r < rows; r++)
                    for (int c = filled > 0 ? filled : 0; c < BLOCK; c++) logits[r * BLOCK + c] = -INFINITY;
            for (int r = 0; r < rows; r++) {
                Part *p = &s->part[number * s->rows + r0 + r];
                Best *b = &s->best[member * s->rows + r0 + r];
                const float *at = logits + r * BLOCK;
                if (block == first) *p = (Part){.sum = splat(0.0f), .reference = top_of(*(const Floats *)at)};
                Floats sum = p->sum, bar = splat(bar_of(b, p));
                for (int c = 0; c < BLOCK; c += LANES) {
                    Floats x = *(const Floats *)(at + c);
                    if (__builtin_expect(over(x, bar), 0)) {
                        p->sum = sum;
                        look_closer(s, r0 + r, b, p, at + c, block * BLOCK + c);
                        sum = p->sum, bar = splat(bar_of(b, p));
                    }
                    sum += exp_of(x - p->reference);
                }
                p->sum = sum;
            }
        }
}

/* log of the sum of e^logit over the whole vocabulary. */
static float log_total(const Scan *s, int row) {
    float most = -INFINITY, total = 0.0f;
    for (int i = 0; i < PARTS; i++) {
        float reference = s->part[i * s->rows + row].reference;
        most = reference > most ? reference : most;
    }
    for (int i = 0; i < PARTS; i++) {
        const Part *p = &s->part[i * s->rows + row];
        if (p->reference > -INFINITY) total += sum_of(p->sum) * expf(p->reference - most);
    }
    return most + logf(total);
}

/* One logit by itself, the very number that the scan would see. */
static float logit_of(const Scan *s, int row, int32_t id) {
    const Linear *l = s->projection;
    size_t block = (size_t)(id / BLOCK) * BLOCK * l->k;
    int column = id % BLOCK;
    if (l->wf) {
        float sum = 0.0f;
        for (int i = 0; i < l->k; i++) sum = ADDED_TO(sum, s->in->x[(size_t)row * l->k + i], l->wf[block + (size_t)i * BLOCK + column]);
        return sum + l->bias[id];
    }
    int32_t sum = 0;
    for (int i = 0; i < l->k; i++) {
        int8_t a = s->in->q[row * pitch(l->k) + i];
        sum += (int8_t)(s->in->flipped ? a ^ -128 : a) * l->w8[block + four_at(i / 4, column) + i % 4];
    }
    return (float)sum * (s->in->scale[row] * l->scale[id]) + l->bias[id];
}

/* Scans the vocabulary for every row; afterwards best[row], of member 0, holds the best of all. */
static void scan_vocabulary(Scan *s, Team *team) {
    int members = team->size;
    for (int i = 0; i < members * s->rows; i++) {
        s->best[i].count = 0;
        s->best[i].least = -INFINITY;
    }
    for (int i = 0; i < PARTS * s->rows; i++) s->part[i] = (Part){.sum = splat(0.0f), .reference = -INFINITY};
    together(team, PARTS, scan_part, s);
    for (int m = 1; m < members; m++)
        for (int r = 0; r < s->rows; r++) {
            Best *to = &s->best[r], *from = &s->best[m * s->rows + r];
            for (int i = 0; i < from->count; i++) {
                Token p = from->best[i];
                int fits = to->count < s->keep || p.value > to->least || (p.value == to->least && p.id < to->best[s->keep - 1].id);
                if (fits) keep_token(to, s->keep, p.value, p.id);
            }
        }
}
