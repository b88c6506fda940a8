#include <stdlib.h>
#include <string.h>
#include "model.h"

enum { FORWARD = 1, BACKWARD = 2, LINKED = 4 };

typedef struct {
    uint8_t *cells; /* [target][source] */
    uint8_t *source_linked, *target_linked;
    int n, k;
} Grid;

static void link_cell(Grid *g, int t, int s) {
    g->cells[t * g->n + s] |= LINKED;
    g->source_linked[s] = g->target_linked[t] = 1;
}

/* Adds neighbors of links that are in either alignment, if one of their tokens has no link yet, until none is left. */
static void grow(Grid *g) {
    static const int steps[8][2] = {{-1, 0}, {0, -1}, {1, 0}, {0, 1}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}};
    for (int added = 1; added;) {
        added = 0;
        for (int t = 0; t < g->k; t++)
            for (int s = 0; s < g->n; s++) {
                if (!(g->cells[t * g->n + s] & LINKED)) continue;
                for (int d = 0; d < 8; d++) {
                    int at = t + steps[d][0], as = s + steps[d][1];
                    if (at < 0 || as < 0 || at >= g->k || as >= g->n) continue;
                    uint8_t cell = g->cells[at * g->n + as];
                    if (!cell || cell & LINKED || (g->source_linked[as] && g->target_linked[at])) continue;
                    link_cell(g, at, as);
                    added = 1;
                }
            }
    }
}

/* Adds links of one alignment between tokens that both have none. */
static void finish(Grid *g, uint8_t direction) {
    for (int t = 0; t < g->k; t++)
        for (int s = 0; s < g->n; s++)
            if (g->cells[t * g->n + s] & direction && !g->source_linked[s] && !g->target_linked[t]) link_cell(g, t, s);
}

int symmetrize(const Pairs *p, const int32_t *to_source, const int32_t *to_target, uint32_t *links, int64_t *counts) {
    Grid g = {malloc((size_t)LONGEST * LONGEST), malloc(LONGEST), malloc(LONGEST), 0, 0};
    int failed = !g.cells || !g.source_linked || !g.target_linked;
    for (int64_t i = 0, done = 0; i < p->count && !failed; i++) {
        int64_t n = p->source_offsets[i + 1] - p->source_offsets[i], k = p->target_offsets[i + 1] - p->target_offsets[i];
        g.n = n > LONGEST ? LONGEST : (int)n, g.k = k > LONGEST ? LONGEST : (int)k;
        memset(g.cells, 0, (size_t)g.n * (size_t)g.k);
        memset(g.source_linked, 0, LONGEST);
        memset(g.target_linked, 0, LONGEST);
        for (int t = 0; t < g.k; t++) {
            int32_t s = to_source[p->target_offsets[i] + t];
            if (s >= 0 && s < g.n) g.cells[t * g.n + s] |= FORWARD;
        }
        for (int s = 0; s < g.n; s++) {
            int32_t t = to_target[p->source_offsets[i] + s];
            if (t >= 0 && t < g.k) g.cells[t * g.n + s] |= BACKWARD;
        }
        for (int t = 0; t < g.k; t++)
            for (int s = 0; s < g.n; s++)
                if ((g.cells[t * g.n + s] & (FORWARD | BACKWARD)) == (FORWARD | BACKWARD)) link_cell(&g, t, s);
        grow(&g);
        finish(&g, FORWARD);
        finish(&g, BACKWARD);
        int64_t before = done;
        for (int t = 0; t < g.k; t++)
            for (int s = 0; s < g.n; s++)
                if (g.cells[t * g.n + s] & LINKED) links[done++] = (uint32_t)t << 16 | (uint32_t)s;
        counts[i] = done - before;
    }
    free(g.cells);
    free(g.source_linked);
    free(g.target_linked);
    return failed ? -1 : 0;
}
