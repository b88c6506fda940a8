#include "sampling.h"
#include <math.h>
#include <stdlib.h>

/* A number in [0, 1) from two rounds of SplitMix64's mixing. */
static double uniform(uint64_t key, int position) {
    uint64_t x = key + ((uint64_t)position + 1) * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < 2; i++) {
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
        x = (x ^ x >> 27) * 0x94D049BB133111EBu;
        x ^= x >> 31;
    }
    return (double)(x >> 11) * 0x1p-53;
}

static int likelier_first(const void *a, const void *b) {
    const WeighedToken *x = a, *y = b;
    if (x->weight != y->weight) return x->weight < y->weight ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Moves the `count` likeliest of n tokens to the front, in any order. */
static void select_likeliest(WeighedToken *tokens, int n, int count) {
    for (int low = 0, high = n - 1; low < high;) {
        WeighedToken pivot = tokens[low + (high - low) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (likelier_first(&tokens[i], &pivot) < 0) i++;
            while (likelier_first(&tokens[j], &pivot) > 0) j--;
            if (i > j) break;
            WeighedToken swap = tokens[i];
            tokens[i++] = tokens[j];
            tokens[j--] = swap;
        }
        if (count <= j) high = j;
        else if (count > i) low = i;
        else break;
    }
}

/* Draws a token from the row's tokens that are not banned, at most `top_k` of them and those that make up `top_p`. */
static int32_t draw_token(Search *s, int row, double number, WeighedToken *tokens) {
    const TranslationJob *job = s->job;
    const Predictions *p = &s->predictions;
    const float *values = p->stored + (size_t)row * p->pitch;
    const int32_t *bans = s->row_bans[row];
    int vocabulary = p->scan.vocabulary, n = 0, probabilities = p->models > 1 && p->mean == MEAN_OF_PROBABILITIES;
    double top = -INFINITY;
    for (int i = 0; i < vocabulary; i++) {
        double value = (probabilities ? log((double)values[i]) : (double)values[i]) / job->temperature;
        tokens[n++] = (WeighedToken){value > -INFINITY ? value : -INFINITY, i}; /* NaN has no order */
    }
    for (int i = 1; i <= bans[0]; i++) tokens[bans[i]].weight = -INFINITY;
    if (p->scan.forbids)
        for (int i = 0; i < n; i++)
            if (p->scan.forbids(s, row, i)) tokens[i].weight = -INFINITY;
    for (int i = 0; i < n; i++) top = tokens[i].weight > top ? tokens[i].weight : top;
    if (!isfinite(top)) return EOS; /* every token is banned, or the model produced infinity */
    if (job->top_k && job->top_k < n) {
        select_likeliest(tokens, n, job->top_k);
        n = job->top_k;
    }
    double total = 0.0;
    for (int i = 0; i < n; i++) total += tokens[i].weight = exp(tokens[i].weight - top);
    for (int i = 0; i < n; i++) tokens[i].weight /= total;
    if (job->top_p < 1.0) { /* less likely tokens than these have a total below 1 - top_p */
        int kept = 0;
        for (int i = 0; i < n; i++)
            if (tokens[i].weight * n >= 1.0 - job->top_p) tokens[kept++] = tokens[i];
        n = kept;
    }
    if (job->top_k || job->top_p < 1.0) qsort(tokens, (size_t)n, sizeof *tokens, likelier_first);
    double reached = 0.0;
    int kept = 0;
    for (; kept < n && (job->top_p >= 1.0 || reached < job->top_p); kept++) reached += tokens[kept].weight;
    double target = number * reached, sum = 0.0;
    int32_t found = EOS;
    for (int i = 0; i < kept; i++) {
        if (tokens[i].weight > 0.0) found = tokens[i].id; /* rounding must not choose a token of probability 0 */
        sum += tokens[i].weight;
        if (sum > target) break;
    }
    return found;
}

typedef struct {
    Search *s;
    int position;
    int32_t *drawn;
} Draws;

static void draw_row(void *argument, int row, int thread) {
    const Draws *d = argument;
    Search *s = d->s;
    const Hypothesis *open = &s->open[row];
    d->drawn[row] = s->forced[row];
    if (d->drawn[row] >= 0) return;
    uint64_t key = (uint64_t)s->job->keys[(size_t)open->sentence * (size_t)s->job->n_best + (size_t)open->number];
    WeighedToken *tokens = s->weighed + (size_t)thread * (size_t)s->predictions.scan.vocabulary;
    d->drawn[row] = draw_token(s, row, uniform(key, d->position), tokens);
}

void run_sampling(Search *s, int32_t *ids, int32_t *at, DecoderRow *decoder_rows) {
    const int n_best = s->job->n_best;
    for (int i = s->job->sentences - 1; i >= 0; i--)
        for (int n = n_best - 1; n >= 0; n--) {
            s->open[i * n_best + n].sentence = i;
            s->open[i * n_best + n].number = n;
            s->open[i * n_best + n].total = 0.0f;
            const SentenceConstraints *c = s->sentences[i].constraints;
            if (c) begin_progress(c, &s->open[i * n_best + n].progress);
        }
    s->rows = s->job->sentences * n_best;
    for (int position = 0; s->rows && !is_stopped(s); position++) {
        begin_step(s, position, ids, at, decoder_rows);
        parallel_for(&s->w->pool, s->rows, draw_row, &(Draws){s, position, s->drawn});
        int to = 0;
        for (int r = 0; r < s->rows; r++) {
            Hypothesis *open = &s->open[r];
            const Predictions *p = &s->predictions;
            float normalizer = log_normalizer(&p->scan, r);
            float value = s->forced[r] >= 0 ? forced_log_probability(p, r, normalizer)
                                            : log_probability(p, logit_of(&p->scan, r, s->drawn[r]), normalizer);
            float total = open->total + value;
            if (!(total > -INFINITY)) continue; /* NaN as well */
            if (s->drawn[r] == EOS) {
                finish_hypothesis(s, &s->sentences[open->sentence], open, total, position);
                continue;
            }
            open->total = total;
            open->tokens[position] = s->drawn[r];
            const SentenceConstraints *c = s->sentences[open->sentence].constraints;
            if (c) advance_progress(s->job->spelling, c, &open->progress, s->drawn[r], &open->progress);
            Hypothesis moved = s->open[to];
            s->open[to++] = *open;
            if (to - 1 != r) *open = moved;
        }
        s->rows = to;
    }
}
