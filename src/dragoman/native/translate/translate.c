#include "translate.h"
#include <stdlib.h>
#include <string.h>
#include "kernels/int8_kernels.h"
#include "positions.h"
#include "sampling.h"

static int max_int(int a, int b) { return a > b ? a : b; }

typedef struct {
    int tokens, rows, longest_source;
    int32_t *at, *first, *length, *ids;
    DecoderRow *decoder_rows;
} Batch;

/* The sizes that the constraints of a batch need. */
typedef struct {
    size_t groups, advancing;
    int avoid, require;
} ConstraintSizes;

static ConstraintSizes constraint_sizes(const TranslationJob *job) {
    ConstraintSizes sizes = {0};
    for (int i = 0; job->constraints && i < job->sentences; i++) {
        const RequiredAutomaton *required = job->constraints[i].required;
        sizes.avoid |= job->constraints[i].avoided != NULL;
        if (!required) continue;
        size_t groups = (size_t)required->groups, advancing = (size_t)required->starts + (size_t)required->max_follows;
        sizes.require = 1;
        sizes.groups = groups > sizes.groups ? groups : sizes.groups;
        sizes.advancing = advancing > sizes.advancing ? advancing : sizes.advancing;
    }
    return sizes;
}

/* Allocates what lexical constraints need. */
static void allocate_constraints(Region *r, Search *s, size_t rows) {
    ConstraintSizes sizes = constraint_sizes(s->job);
    size_t slots = (size_t)s->job->beam, each = 2 * sizes.groups;
    s->banked = region_alloc(r, sizes.require ? sizeof(BankedCandidate) * slots * (slots + sizes.advancing) : 0);
    s->advancing = region_alloc(r, 4 * sizes.advancing);
    int32_t *counts = region_alloc(r, 4 * each * (2 * rows + 1));
    if (!r->start) return;
    s->after = (Progress){.met = counts, .reached = counts + sizes.groups};
    for (size_t i = 0; i < 2 * rows; i++) {
        int32_t *met = counts + each * (i + 1);
        (i < rows ? &s->open[i] : &s->next[i - rows])->progress = (Progress){.met = met, .reached = met + sizes.groups};
    }
    s->predictions.scan.forbids = sizes.avoid ? forbids_token : NULL;
}

/* Allocates every array of a call in one region; called once to count bytes and once to allocate. */
static void allocate_batch(Worker *w, Search *s, Batch *b) {
    const TranslationJob *job = s->job;
    Region *r = &w->region;
    size_t max_rows = (size_t)max_int(b->tokens, b->rows);
    size_t rows = (size_t)b->rows, slots = (size_t)job->beam, steps = (size_t)job->max_length + 2;
    size_t threads = MAX_THREADS;
    r->used = 0;
    allocate_activations(w, b->tokens, b->rows, b->longest_source);
    b->at = region_alloc(r, 4 * max_rows);
    b->first = region_alloc(r, 4 * max_rows);
    b->length = region_alloc(r, 4 * max_rows);
    b->ids = region_alloc(r, 4 * max_rows);
    b->decoder_rows = region_alloc(r, sizeof(DecoderRow) * rows);
    s->sentences = region_alloc(r, sizeof(Sentence) * (size_t)job->sentences);
    s->open = region_alloc(r, sizeof(Hypothesis) * rows);
    s->next = region_alloc(r, sizeof(Hypothesis) * rows);
    s->candidates = region_alloc(r, sizeof(Candidate) * slots);
    s->row_bans = region_alloc(r, sizeof(int32_t *) * rows);
    Predictions *p = &s->predictions;
    size_t stored = job->sampled || job->models > 1 ? rows : 0;
    p->scan.best = region_alloc(r, sizeof(BestTokens) * rows * threads);
    p->scan.part = region_alloc(r, sizeof(PartSum) * rows * PARTS);
    p->pitch = (size_t)w->model->projection.n;
    p->stored = region_alloc(r, sizeof(float) * stored * p->pitch);
    p->own = region_alloc(r, sizeof(float) * (job->models > 1 ? rows : 0) * p->pitch);
    p->forced_log = region_alloc(r, sizeof(float) * rows);
    s->forced = region_alloc(r, 4 * rows);
    s->drawn = region_alloc(r, 4 * rows);
    s->weighed = region_alloc(r, sizeof(WeighedToken) * (job->sampled ? threads * (size_t)w->model->config.target_vocabulary : 0));
    ScoredToken *tokens = region_alloc(r, sizeof(ScoredToken) * rows * threads * slots);
    size_t ban_size = 4 + (job->no_repeat ? steps : 0);
    int32_t *bans = region_alloc(r, 4 * rows * ban_size);
    int32_t *histories = region_alloc(r, 4 * rows * 4 * steps);
    FinishedHypothesis *finished = region_alloc(r, sizeof(FinishedHypothesis) * (size_t)job->sentences * slots);
    int32_t *done = region_alloc(r, 4 * (size_t)job->sentences * slots * steps);
    size_t width = (size_t)job->longest_source;
    int32_t *tables = region_alloc(r, job->maps ? 4 * (size_t)job->sentences * slots * steps : 0);
    s->recorded = region_alloc(r, job->maps ? sizeof(float) * rows * (steps - 1) * (size_t)job->recorded * width : 0);
    w->recorder.stride = (size_t)w->model->heads.groups * width;
    w->recorder.weights = region_alloc(r, job->maps ? sizeof(Floats) * MAX_QUERIES * w->recorder.stride : 0);
    allocate_constraints(r, s, rows);
    if (!r->start) return;
    if (!stored) p->stored = NULL;
    for (size_t i = 0; i < rows * threads; i++) p->scan.best[i].best = tokens + i * slots;
    for (size_t i = 0; i < rows; i++) {
        s->row_bans[i] = bans + i * ban_size;
        s->open[i].table = histories + 4 * i * steps, s->open[i].tokens = histories + (4 * i + 1) * steps;
        s->next[i].table = histories + (4 * i + 2) * steps, s->next[i].tokens = histories + (4 * i + 3) * steps;
    }
    for (size_t i = 0; i < (size_t)job->sentences * slots; i++) {
        finished[i].tokens = done + i * steps;
        finished[i].table = job->maps ? tables + i * steps : NULL;
    }
    for (int i = 0; i < job->sentences; i++) s->sentences[i].done = finished + (size_t)i * slots;
}

/* Reserves the memory of the further models of an ensemble; -1 if it runs out. */
static int prepare_others(Worker *const *workers, int models, const Batch *b, int max_length) {
    for (int i = 1; i < models; i++) {
        if (prepare_worker(workers[i], b->tokens, b->rows, b->longest_source, (size_t)b->rows * (size_t)(max_length + 1))) return -1;
        if (extend_position_codes(workers[i], max_int(b->longest_source, max_length + 1))) return -1;
    }
    return 0;
}

/* More than 64 do not fit the L2 cache with their keys and values. But tiles multiply so fast that reading the weights takes
longer, which more rows share. */
int batch_rows(void) { return HAS_AMX ? 128 : 64; }

int translate(Worker *w, const TranslationJob *job) {
    if (request_tiles()) return TILES_REFUSED;
    const Model *m = w->model;
    Worker *const *workers = job->models > 1 ? (Worker *const *)job->workers : &w;
    Search s = {.w = w, .job = job};
    Batch b = {.rows = job->sentences * job->beam};
    for (int i = 0; i < job->sentences; i++) {
        b.tokens += job->source_lengths[i];
        b.longest_source = max_int(b.longest_source, job->source_lengths[i]);
    }
    Region kept = w->region;
    w->region = (Region){0};
    allocate_batch(w, &s, &b);
    size_t bytes = w->region.used;
    w->region = kept;
    if (reserve_memory(w, bytes, (size_t)b.rows * (size_t)(job->max_length + 1))) return -1;
    if (extend_position_codes(w, max_int(b.longest_source, job->max_length + 1))) return -1;
    if (prepare_others(workers, job->models, &b, job->max_length)) return -1;
    allocate_batch(w, &s, &b);

    Predictions *p = &s.predictions;
    p->workers = workers, p->models = job->models, p->mean = job->mean, p->forced = s.forced;
    p->scan = (VocabularyScan){.vocabulary = m->config.target_vocabulary,
                               .keep = job->sampled ? 1 : job->beam, .best = p->scan.best, .part = p->scan.part,
                               .banned = (const int32_t *const *)s.row_bans, .forbids = p->scan.forbids, .search = &s};
    const int32_t *prefix = job->prefix;
    for (int i = 0, token = 0; i < job->sentences; i++) {
        Sentence *of = &s.sentences[i];
        *of = (Sentence){.first = token, .length = job->source_lengths[i], .limit = job->limits[i], .slots = job->beam,
                         .open = 1, .prefix = prefix, .prefix_length = prefix ? job->prefix_lengths[i] : 0, .done = of->done,
                         .constraints = job->constraints ? &job->constraints[i] : NULL};
        if (prefix) prefix += of->prefix_length;
        for (int j = 0; j < of->length; j++, token++) b.at[token] = j, b.first[token] = of->first, b.length[token] = of->length;
        s.open[i].total = 0.0f;
        s.open[i].sentence = i;
        if (of->constraints) begin_progress(of->constraints, &s.open[i].progress);
    }
    s.rows = job->sentences;
    tiles_begin();
    if (job->maps) w->recorder.wants = wants_heads, w->recorder.record = record_heads, w->recorder.keeper = &s;
    for (int i = 0; i < job->models; i++) {
        pool_open(&workers[i]->pool, i ? 1 : job->threads);
        encode(workers[i], job->source, b.at, b.first, b.length, b.tokens);
    }
    (job->sampled ? run_sampling : run_search)(&s, b.ids, b.at, b.decoder_rows);
    for (int i = 0; i < job->models; i++) pool_close(&workers[i]->pool);
    tiles_end();
    w->recorder = (Recorder){0};
    write_results(&s);
    return 0;
}
