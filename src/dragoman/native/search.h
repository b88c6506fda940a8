/* Beam search with the meaning that dragoman.search.types.Search gives it; search/beam.py is its reference. */
#pragma once
#include "layers.h"
#include "vocabulary.h"

enum { PAD = 0, BOS = 1, EOS = 2 };

/* What is asked, and where the answers go; as engines/native.py fills it in. */
typedef struct {
    int32_t sentences, beam, n_best, min_length, no_repeat, longest, team;
    const int32_t *source, *source_lengths; /* ids end to end, each source with its end mark */
    const int32_t *limits;
    const int32_t *prefix, *prefix_lengths; /* ids end to end; NULL for none */
    const float *normalizers;               /* for each length up to longest + 1, the end mark counted */
    int32_t *tokens;                        /* [sentence][n_best][longest] */
    int32_t *lengths;                       /* [sentence][n_best]; -1 where there is no hypothesis */
    float *scores, *log_probabilities;      /* [sentence][n_best] */
} Job;

typedef struct {
    float score, total;
    int32_t length;
    int32_t *tokens;
} Ended;

typedef struct {
    int first, length, limit, slots, open, ended;
    const int32_t *prefix;
    int prefix_length;
    Ended *done; /* best first */
} Sentence;

/* An open hypothesis. */
typedef struct {
    float total;
    int32_t sentence;
    int32_t *table;  /* its entries of the log, one a position */
    int32_t *tokens;
} Open;

typedef struct {
    float total;
    int parent;
    int32_t id;
} Candidate;

typedef struct {
    Worker *w;
    const Job *job;
    Sentence *sentences;
    Open *open, *next;
    int rows;
    Scan scan;
    Candidate *candidates;
    int32_t **row_bans;
} Search;

static void end_hypothesis(Search *s, Sentence *of, const Open *parent, float total, int length) {
    Ended e = {total / s->job->normalizers[length + 1], total, length, NULL};
    int at = of->ended++;
    int32_t *room = of->done[at].tokens;
    for (; at > 0 && of->done[at - 1].score < e.score; at--) of->done[at] = of->done[at - 1];
    e.tokens = room;
    memcpy(room, parent->tokens, sizeof(int32_t) * (size_t)length);
    of->done[at] = e;
    of->slots--;
}

/* Whether no open hypothesis, the best of which has this total, can enter the n best any more. */
static int beyond_reach(const Search *s, const Sentence *of, float best, int length) {
    if (of->ended < s->job->n_best) return 0;
    const float *n = s->job->normalizers;
    float most = n[of->limit + 1], soon = n[length + 1 < s->job->longest + 1 ? length + 1 : s->job->longest + 1];
    return of->done[s->job->n_best - 1].score >= best / (most > soon ? most : soon);
}

/* The ids that cannot follow row r: marks, the end mark before its time, what would repeat. */
static void forbid(Search *s, int r, int position) {
    const Job *job = s->job;
    int32_t *bans = s->row_bans[r];
    bans[0] = 0;
    bans[++bans[0]] = PAD;
    bans[++bans[0]] = BOS;
    if (position < job->min_length) bans[++bans[0]] = EOS;
    int n = job->no_repeat;
    const int32_t *written = s->open[r].tokens;
    if (n > 0)
        for (int i = 0; i + n <= position; i++)
            if (!memcmp(written + i, written + position - (n - 1), sizeof(int32_t) * (size_t)(n - 1)))
                bans[++bans[0]] = written[i + n - 1];
}

/* a before b: likelier, or of the lower beam, or the lower id. */
static int precedes(const Candidate *a, const Candidate *b) {
    if (a->total != b->total) return a->total > b->total;
    return a->parent != b->parent ? a->parent < b->parent : a->id < b->id;
}

static int add_candidate(Search *s, int count, int most, Candidate c) {
    if (!(c.total > -INFINITY)) return count; /* also what is no number */
    if (count == most && !precedes(&c, &s->candidates[most - 1])) return count;
    int at = count < most ? count++ : most - 1;
    for (; at > 0 && precedes(&c, &s->candidates[at - 1]); at--) s->candidates[at] = s->candidates[at - 1];
    s->candidates[at] = c;
    return count;
}

/* The rows [first, first + of->open) are extended; what stays open goes to s->next from `to` on; returns where it ends. */
static int extend(Search *s, Sentence *of, int first, int position, int to) {
    int count = 0, slots = of->slots;
    for (int r = first; r < first + of->open; r++) {
        float all = log_total(&s->scan, r), before = s->open[r].total;
        const Best *best = &s->scan.best[r];
        int32_t forced = position < of->prefix_length ? of->prefix[position] : position >= of->limit ? EOS : -1;
        if (forced < 0 && best->count == 0) forced = EOS; /* nothing is left to say */
        if (forced >= 0)
            count = add_candidate(s, count, slots, (Candidate){before + (logit_of(&s->scan, r, forced) - all), r, forced});
        else
            for (int i = 0; i < best->count && i < slots; i++)
                count = add_candidate(s, count, slots, (Candidate){before + (best->best[i].value - all), r, best->best[i].id});
    }
    int from = to;
    for (int i = 0; i < count; i++) {
        const Candidate *c = &s->candidates[i];
        const Open *parent = &s->open[c->parent];
        if (c->id == EOS) {
            end_hypothesis(s, of, parent, c->total, position);
            continue;
        }
        Open *child = &s->next[to++];
        child->total = c->total;
        child->sentence = parent->sentence;
        memcpy(child->table, parent->table, sizeof(int32_t) * (size_t)(position + 1));
        memcpy(child->tokens, parent->tokens, sizeof(int32_t) * (size_t)position);
        child->tokens[position] = c->id;
    }
    if (to > from && beyond_reach(s, of, s->next[from].total, position + 1)) to = from;
    of->open = to - from;
    return to;
}

static void answer(const Search *s) {
    const Job *job = s->job;
    for (int i = 0; i < job->sentences; i++)
        for (int n = 0; n < job->n_best; n++) {
            const Sentence *of = &s->sentences[i];
            size_t at = (size_t)i * job->n_best + n;
            job->lengths[at] = -1;
            if (n >= of->ended) continue;
            const Ended *e = &of->done[n];
            job->lengths[at] = e->length;
            job->scores[at] = e->score;
            job->log_probabilities[at] = e->total;
            memcpy(job->tokens + at * job->longest, e->tokens, sizeof(int32_t) * (size_t)e->length);
        }
}

/* From encoded sources to hypotheses. */
static void run_search(Search *s, int32_t *ids, int32_t *at, Place *places) {
    size_t entry = 0;
    for (int position = 0; s->rows; position++) {
        for (int r = 0; r < s->rows; r++) {
            Open *o = &s->open[r];
            const Sentence *of = &s->sentences[o->sentence];
            o->table[position] = (int32_t)(entry + (size_t)r);
            ids[r] = position ? o->tokens[position - 1] : BOS;
            at[r] = position;
            places[r] = (Place){of->first, of->length, o->table};
            forbid(s, r, position);
        }
        step(s->w, ids, at, places, s->rows, position, entry);
        entry += (size_t)s->rows;
        s->scan.rows = s->rows;
        scan_vocabulary(&s->scan, &s->w->team);
        int to = 0;
        for (int r = 0; r < s->rows;) {
            Sentence *of = &s->sentences[s->open[r].sentence];
            int rows = of->open;
            to = extend(s, of, r, position, to);
            r += rows;
        }
        s->rows = to;
        Open *swap = s->open;
        s->open = s->next;
        s->next = swap;
    }
}
