#include "search.h"
#include "allocation.h"
#include <math.h>
#include <string.h>

void finish_hypothesis(Search *s, Sentence *of, const Hypothesis *parent, float total, int length) {
    FinishedHypothesis e = {total / s->job->normalizers[length + 1], total, length, NULL, NULL};
    int at = of->finished++;
    int32_t *tokens = of->done[at].tokens, *table = of->done[at].table;
    for (; at > 0 && of->done[at - 1].score < e.score; at--) of->done[at] = of->done[at - 1];
    e.tokens = tokens, e.table = table;
    memcpy(tokens, parent->tokens, sizeof(int32_t) * (size_t)length);
    if (table) memcpy(table, parent->table, sizeof(int32_t) * (size_t)(length + 1));
    of->done[at] = e;
    of->slots--;
}

/* Whether no open hypothesis can still enter the n best, if the best of them has this total. With required phrases, whether
none would if it ended with the next token. */
static int cannot_improve(const Search *s, const Sentence *of, float best, int length) {
    if (of->finished < s->job->n_best) return 0;
    const float *n = s->job->normalizers;
    float last = n[of->limit + 1], soon = n[length + 1 < s->job->max_length + 1 ? length + 1 : s->job->max_length + 1];
    if (of->constraints && of->constraints->required) last = soon;
    return of->done[s->job->n_best - 1].score >= best / (last > soon ? last : soon);
}

/* Bans ids after row r: special tokens, EOS below min_length, and repeated n-grams. */
static void ban_tokens(Search *s, int r, int position) {
    const TranslationJob *job = s->job;
    int32_t *bans = s->row_bans[r];
    bans[0] = 0;
    bans[++bans[0]] = PAD;
    bans[++bans[0]] = BOS;
    if (position < job->min_length) bans[++bans[0]] = EOS;
    int n = job->no_repeat;
    const int32_t *tokens = s->open[r].tokens;
    if (n > 0)
        for (int i = 0; i + n <= position; i++)
            if (!memcmp(tokens + i, tokens + position - (n - 1), sizeof(int32_t) * (size_t)(n - 1)))
                bans[++bans[0]] = tokens[i + n - 1];
}

/* Whether a ranks before b: likelier, then the lower beam, then the lower id. */
static int precedes(const Candidate *a, const Candidate *b) {
    if (a->total != b->total) return a->total > b->total;
    return a->parent != b->parent ? a->parent < b->parent : a->id < b->id;
}

static int add_candidate(Search *s, int count, int max_count, Candidate c) {
    if (!(c.total > -INFINITY)) return count; /* NaN as well */
    if (count == max_count && !precedes(&c, &s->candidates[max_count - 1])) return count;
    int at = count < max_count ? count++ : max_count - 1;
    for (; at > 0 && precedes(&c, &s->candidates[at - 1]); at--) s->candidates[at] = s->candidates[at - 1];
    s->candidates[at] = c;
    return count;
}

/* Writes the likeliest continuations of the rows [first, first + of->open), likeliest first, to s->candidates. */
static int take_likeliest(Search *s, const Sentence *of, int first) {
    int count = 0, slots = of->slots;
    for (int r = first; r < first + of->open; r++) {
        const Predictions *p = &s->predictions;
        float normalizer = log_normalizer(&p->scan, r), total = s->open[r].total;
        const BestTokens *best = &p->scan.best[r];
        if (s->forced[r] >= 0) {
            float value = forced_log_probability(p, r, normalizer);
            count = add_candidate(s, count, slots, (Candidate){total + value, r, s->forced[r]});
        } else if (best->count == 0) { /* every token is banned */
            float value = log_probability(p, logit_of(&p->scan, r, EOS), normalizer);
            count = add_candidate(s, count, slots, (Candidate){total + value, r, EOS});
        } else
            for (int i = 0; i < best->count && i < slots; i++) {
                float value = log_probability(p, best->best[i].value, normalizer);
                count = add_candidate(s, count, slots, (Candidate){total + value, r, best->best[i].id});
            }
    }
    return count;
}

/* Extends the rows [first, first + of->open); open ones go to s->next from `to` on. Returns their end. */
static int extend_hypotheses(Search *s, Sentence *of, int first, int position, int to) {
    int has_required = of->constraints && of->constraints->required;
    int count = has_required ? allocate_slots(s, of, first, position) : take_likeliest(s, of, first);
    int from = to;
    for (int i = 0; i < count; i++) {
        const Candidate *c = &s->candidates[i];
        const Hypothesis *parent = &s->open[c->parent];
        if (c->id == EOS) {
            finish_hypothesis(s, of, parent, c->total, position);
            continue;
        }
        Hypothesis *child = &s->next[to++];
        child->total = c->total;
        child->sentence = parent->sentence;
        memcpy(child->table, parent->table, sizeof(int32_t) * (size_t)(position + 1));
        memcpy(child->tokens, parent->tokens, sizeof(int32_t) * (size_t)position);
        child->tokens[position] = c->id;
        if (of->constraints) advance_progress(s->job->spelling, of->constraints, &parent->progress, c->id, &child->progress);
    }
    if (to > from && cannot_improve(s, of, s->next[from].total, position + 1)) to = from;
    of->open = to - from;
    return to;
}

int wants_heads(const void *search, int kind, int layer) {
    const TranslationJob *job = ((const Search *)search)->job;
    int wanted = 0;
    for (int i = 0; kind == CROSS && i < job->recorded; i++) wanted |= job->recorded_layers[i] == layer;
    return wanted;
}

void record_heads(const void *search, int kind, int layer, int row, const Floats *weights, int count) {
    (void)kind;
    const Search *s = search;
    const TranslationJob *job = s->job;
    for (int i = 0; i < job->recorded; i++) {
        if (job->recorded_layers[i] != layer) continue;
        float *to = s->recorded + ((s->entry + (size_t)row) * (size_t)job->recorded + (size_t)i) * (size_t)job->longest_source;
        int head = job->recorded_heads[i], from = head < 0 ? 0 : head, end = head < 0 ? s->w->model->heads.heads : head + 1;
        for (int p = 0; p < count; p++) {
            float sum = 0.0f;
            for (int h = from; h < end; h++) sum += head_weight(weights, count, h, p);
            to[p] = sum / (float)(end - from);
        }
    }
}

static void write_maps(const Search *s, const Sentence *of, const FinishedHypothesis *e, float *maps) {
    const TranslationJob *job = s->job;
    size_t width = (size_t)job->longest_source, recorded = (size_t)job->recorded, steps = (size_t)job->max_length + 1;
    for (size_t i = 0; i < recorded; i++)
        for (int t = 0; t <= e->length; t++)
            memcpy(maps + (i * steps + (size_t)t) * width, s->recorded + ((size_t)e->table[t] * recorded + i) * width,
                   sizeof(float) * (size_t)of->length);
}

void write_results(const Search *s) {
    const TranslationJob *job = s->job;
    for (int i = 0; i < job->sentences; i++)
        for (int n = 0; n < job->n_best; n++) {
            const Sentence *of = &s->sentences[i];
            size_t at = (size_t)i * job->n_best + n;
            job->lengths[at] = -1;
            if (n >= of->finished) continue;
            const FinishedHypothesis *e = &of->done[n];
            job->lengths[at] = e->length;
            job->scores[at] = e->score;
            job->log_probabilities[at] = e->total;
            memcpy(job->tokens + at * job->max_length, e->tokens, sizeof(int32_t) * (size_t)e->length);
            if (job->maps)
                write_maps(s, of, e, job->maps + at * (size_t)job->recorded * (size_t)(job->max_length + 1) * (size_t)job->longest_source);
        }
}

int forbids_token(const void *search, int row, int32_t id) {
    const Search *s = search;
    const Hypothesis *open = &s->open[row];
    const SentenceConstraints *c = s->sentences[open->sentence].constraints;
    return c && c->avoided && completes_avoided(s->job->spelling, c->avoided, &open->progress, id);
}

int is_stopped(const Search *s) { return s->job->stop && __atomic_load_n(s->job->stop, __ATOMIC_RELAXED); }

void begin_step(Search *s, int position, int32_t *ids, int32_t *at, DecoderRow *decoder_rows) {
    for (int r = 0; r < s->rows; r++) {
        Hypothesis *o = &s->open[r];
        const Sentence *of = &s->sentences[o->sentence];
        o->table[position] = (int32_t)(s->entry + (size_t)r);
        ids[r] = position ? o->tokens[position - 1] : BOS;
        at[r] = position;
        decoder_rows[r] = (DecoderRow){of->first, of->length, o->table};
        s->forced[r] = position < of->prefix_length ? of->prefix[position] : position >= of->limit ? EOS : -1;
        ban_tokens(s, r, position);
    }
    predict(&s->predictions, ids, at, decoder_rows, s->rows, s->entry);
    s->entry += (size_t)s->rows;
}

void run_search(Search *s, int32_t *ids, int32_t *at, DecoderRow *decoder_rows) {
    for (int position = 0; s->rows && !is_stopped(s); position++) {
        begin_step(s, position, ids, at, decoder_rows);
        int to = 0;
        for (int r = 0; r < s->rows;) {
            Sentence *of = &s->sentences[s->open[r].sentence];
            int rows = of->open;
            to = extend_hypotheses(s, of, r, position, to);
            r += rows;
        }
        s->rows = to;
        Hypothesis *swap = s->open;
        s->open = s->next;
        s->next = swap;
    }
}
