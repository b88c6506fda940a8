#include "allocation.h"
#include <math.h>
#include <stdlib.h>

#define MISSING_TOKEN_COST 6.0f /* in log-probability; benchmarks/results/terms.md compares values */

static int by_number(int64_t a, int64_t b) { return a < b ? -1 : a > b; }

/* In its bank, best first: a bank has the candidates that lack as many tokens, and have room for them or not. */
static int in_bank(const void *a, const void *b) {
    const BankedCandidate *x = a, *y = b;
    if (x->hopeless != y->hopeless) return by_number(x->hopeless, y->hopeless);
    if (x->missing != y->missing) return by_number(x->missing, y->missing);
    if (x->candidate.total != y->candidate.total) return x->candidate.total > y->candidate.total ? -1 : 1;
    return by_number(x->number, y->number);
}

/* The best of each bank, then the second best of each; those with no room for what they lack come last. */
static int by_allocation(const void *a, const void *b) {
    const BankedCandidate *x = a, *y = b;
    if (x->hopeless != y->hopeless) return by_number(x->hopeless, y->hopeless);
    if (x->rank != y->rank) return by_number(x->rank, y->rank);
    float of_x = x->candidate.total - MISSING_TOKEN_COST * (float)x->missing;
    float of_y = y->candidate.total - MISSING_TOKEN_COST * (float)y->missing;
    return of_x != of_y ? (of_x > of_y ? -1 : 1) : in_bank(a, b);
}

static int by_total(const void *a, const void *b) {
    const BankedCandidate *x = a, *y = b;
    if (x->candidate.total != y->candidate.total) return x->candidate.total > y->candidate.total ? -1 : 1;
    return by_allocation(a, b);
}

/* Adds a candidate with what it lacks; EOS that comes too early is marked. */
static int add_banked(Search *s, const Sentence *of, int count, int row, int32_t id, float value, int room) {
    const Hypothesis *parent = &s->open[row];
    BankedCandidate c = {.candidate = {parent->total + value, row, id}, .number = count};
    if (!(c.candidate.total > -INFINITY)) return count; /* NaN as well */
    advance_progress(s->job->spelling, of->constraints, &parent->progress, id, &s->after);
    int lacks;
    c.missing = missing_tokens(of->constraints->required, &s->after, &lacks);
    c.early = lacks && id == EOS;
    c.hopeless = c.missing > room;
    s->banked[count] = c;
    return count + 1;
}

/* The candidates of one row: its best tokens, and those that advance a required phrase. */
static int add_row(Search *s, const Sentence *of, int count, int row, int room) {
    const Predictions *p = &s->predictions;
    const BestTokens *best = &p->scan.best[row];
    float normalizer = log_normalizer(&p->scan, row);
    if (s->forced[row] >= 0)
        return add_banked(s, of, count, row, s->forced[row], forced_log_probability(p, row, normalizer), room);
    if (best->count == 0) /* every token is banned */
        return add_banked(s, of, count, row, EOS, log_probability(p, logit_of(&p->scan, row, EOS), normalizer), room);
    int likely = best->count < of->slots ? best->count : of->slots;
    for (int i = 0; i < likely; i++)
        count = add_banked(s, of, count, row, best->best[i].id, log_probability(p, best->best[i].value, normalizer), room);
    int advancing = advancing_tokens(of->constraints->required, &s->open[row].progress, s->advancing);
    for (int i = 0; i < advancing; i++) {
        int32_t id = s->advancing[i];
        int is_new = !is_excluded(&p->scan, row, id);
        for (int j = 0; is_new && j < likely; j++) is_new = best->best[j].id != id;
        for (int j = 0; is_new && j < i; j++) is_new = s->advancing[j] != id;
        if (is_new) count = add_banked(s, of, count, row, id, log_probability(p, logit_of(&p->scan, row, id), normalizer), room);
    }
    return count;
}

/* Removes EOS where a phrase is missing. If nothing else is left, and no hypothesis has ended, those that lack least stay. */
static int remove_early(Search *s, const Sentence *of, int count) {
    int64_t fewest = INT64_MAX;
    int kept = 0, stuck = !of->finished;
    for (int i = 0; i < count; i++) {
        if (!s->banked[i].early) stuck = 0;
        else if (s->banked[i].missing < fewest) fewest = s->banked[i].missing;
    }
    for (int i = 0; i < count; i++)
        if (stuck ? s->banked[i].missing == fewest : !s->banked[i].early) s->banked[kept++] = s->banked[i];
    return kept;
}

int allocate_slots(Search *s, const Sentence *of, int first, int position) {
    BankedCandidate *banked = s->banked;
    int count = 0;
    for (int row = first; row < first + of->open; row++) count = add_row(s, of, count, row, of->limit - position - 1);
    count = remove_early(s, of, count);
    qsort(banked, (size_t)count, sizeof *banked, in_bank);
    for (int i = 0; i < count; i++) {
        int same = i && banked[i].hopeless == banked[i - 1].hopeless && banked[i].missing == banked[i - 1].missing;
        banked[i].rank = same ? banked[i - 1].rank + 1 : 0;
    }
    qsort(banked, (size_t)count, sizeof *banked, by_allocation);
    count = count < of->slots ? count : of->slots;
    qsort(banked, (size_t)count, sizeof *banked, by_total);
    for (int i = 0; i < count; i++) s->candidates[i] = banked[i].candidate;
    return count;
}
