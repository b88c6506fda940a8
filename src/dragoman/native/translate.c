/* The Transformer translates on a CPU: encoder, decoder and beam search, in eight bits or in float.

From the outside: `model_new` packs the weights, `worker_new` makes the memory of a thread, `translate` does a batch.
A sentence's translation does not depend on what else is in the batch, nor on the number of threads, to the last bit. */
#define _GNU_SOURCE
#include "search.h"

#define TILES_REFUSED -2

/* 0 where this process may use the instructions that the library was built for. */
int ask_for_tiles(void) { return tiles_asked(); }

static void member_begins(void) { tiles_begin(); } /* what one thread was given, the process has */
static void member_ends(void) { tiles_end(); }

Worker *worker_new(const Model *m) {
    Worker *w = NULL;
    if (posix_memalign((void **)&w, 64, sizeof *w)) return NULL;
    memset(w, 0, sizeof *w);
    w->model = m;
    w->half = HALF && m->shape.quantized;
    w->entry = (size_t)(key_floats(&m->heads) + value_floats(&m->heads)) * (w->half ? 2 : 4);
    return w;
}

void worker_free(Worker *w) {
    if (!w) return;
    region_close(&w->region);
    region_close(&w->log_region);
    free(w->positions);
    free(w);
}

static int most(int a, int b) { return a > b ? a : b; }

typedef struct {
    int tokens, rows, longest_source;
    int32_t *at, *first, *length, *ids;
    Place *places;
} Batch;

/* Every array of a call, in one region; called once to count and once to place. */
static void place_batch(Worker *w, Search *s, Batch *b) {
    const Model *m = w->model;
    const Job *job = s->job;
    Region *r = &w->region;
    const Layer *l = &m->decoder[0];
    size_t all = (size_t)most(b->tokens, b->rows) + TILE, width = (size_t)m->width, floats = sizeof(float);
    size_t rows = (size_t)b->rows, slots = (size_t)job->beam, steps = (size_t)job->longest + 2;
    size_t members = MOST_MEMBERS;
    size_t few = all < FEED_ROWS + TILE ? all : FEED_ROWS + TILE;
    r->used = 0;
    w->x = take(r, floats * all * width);
    w->h = take(r, floats * all * width);
    w->wide = take(r, floats * all * (size_t)l->qkv.n);
    w->mixed = take(r, floats * all * (size_t)l->output.k);
    w->inner = take(r, floats * few * (size_t)l->inner.n);
    w->rows.scale = take(r, floats * all);
    w->rows.q = take(r, all * pitch(most(m->width, l->output.k)) + few * pitch(l->inner.n));
    w->iota = take(r, 4 * (size_t)b->longest_source);
    w->tokens = (size_t)b->tokens;
    w->cross = take(r, w->tokens * w->entry * (size_t)m->shape.decoder_layers);
    b->at = take(r, 4 * all);
    b->first = take(r, 4 * all);
    b->length = take(r, 4 * all);
    b->ids = take(r, 4 * all);
    b->places = take(r, sizeof(Place) * rows);
    s->sentences = take(r, sizeof(Sentence) * (size_t)job->sentences);
    s->open = take(r, sizeof(Open) * rows);
    s->next = take(r, sizeof(Open) * rows);
    s->candidates = take(r, sizeof(Candidate) * slots);
    s->row_bans = take(r, sizeof(int32_t *) * rows);
    s->scan.best = take(r, sizeof(Best) * rows * members);
    s->scan.part = take(r, sizeof(Part) * rows * PARTS);
    Token *tokens = take(r, sizeof(Token) * rows * members * slots);
    size_t ban_room = 4 + (job->no_repeat ? steps : 0);
    int32_t *bans = take(r, 4 * rows * ban_room);
    int32_t *histories = take(r, 4 * rows * 4 * steps);
    Ended *ended = take(r, sizeof(Ended) * (size_t)job->sentences * slots);
    int32_t *done = take(r, 4 * (size_t)job->sentences * slots * steps);
    if (!r->start) return;
    memset(w->mixed, 0, floats * all * (size_t)l->output.k);
    for (int i = 0; i < b->longest_source; i++) w->iota[i] = i;
    for (size_t i = 0; i < rows * members; i++) s->scan.best[i].best = tokens + i * slots;
    for (size_t i = 0; i < rows; i++) {
        s->row_bans[i] = bans + i * ban_room;
        s->open[i] = (Open){.table = histories + 4 * i * steps, .tokens = histories + (4 * i + 1) * steps};
        s->next[i] = (Open){.table = histories + (4 * i + 2) * steps, .tokens = histories + (4 * i + 3) * steps};
    }
    for (size_t i = 0; i < (size_t)job->sentences * slots; i++) ended[i].tokens = done + i * steps;
    for (int i = 0; i < job->sentences; i++) s->sentences[i].done = ended + (size_t)i * slots;
}

/* The region at least so large; kept from call to call, so that its pages need not be asked for again. */
static int roomy(Region *r, size_t bytes) {
    if (r->start && r->size >= bytes) return 0;
    region_close(r);
    return region_open(r, bytes);
}

/* 0, -1 where there is no memory, or TILES_REFUSED. */
int translate(Worker *w, const Job *job) {
    if (tiles_asked()) return TILES_REFUSED;
    const Model *m = w->model;
    Search s = {.w = w, .job = job};
    Batch b = {.rows = job->sentences * job->beam};
    for (int i = 0; i < job->sentences; i++) {
        b.tokens += job->source_lengths[i];
        b.longest_source = most(b.longest_source, job->source_lengths[i]);
    }
    Region kept = w->region;
    w->region = (Region){0};
    place_batch(w, &s, &b);
    size_t bytes = w->region.used;
    w->region = kept;
    w->entries = (size_t)b.rows * (size_t)(job->longest + 1);
    size_t log_bytes = w->entries * w->entry * (size_t)m->shape.decoder_layers;
    if (roomy(&w->region, bytes) || roomy(&w->log_region, log_bytes)) return -1;
    if (place_positions(w, most(b.longest_source, job->longest + 1))) return -1;
    place_batch(w, &s, &b);
    w->log = w->log_region.start;

    s.scan = (Scan){.projection = &m->projection, .in = &w->rows, .vocabulary = m->shape.target_vocabulary, .keep = job->beam,
                    .best = s.scan.best, .part = s.scan.part, .banned = (const int32_t *const *)s.row_bans};
    const int32_t *prefix = job->prefix;
    for (int i = 0, token = 0; i < job->sentences; i++) {
        Sentence *of = &s.sentences[i];
        *of = (Sentence){.first = token, .length = job->source_lengths[i], .limit = job->limits[i], .slots = job->beam,
                         .open = 1, .prefix = prefix, .prefix_length = prefix ? job->prefix_lengths[i] : 0, .done = of->done};
        if (prefix) prefix += of->prefix_length;
        for (int j = 0; j < of->length; j++, token++) b.at[token] = j, b.first[token] = of->first, b.length[token] = of->length;
        s.open[i].total = 0.0f;
        s.open[i].sentence = i;
    }
    s.rows = job->sentences;
    tiles_begin();
    team_open(&w->team, job->team);
    encode(w, job->source, b.at, b.first, b.length, b.tokens);
    run_search(&s, b.ids, b.at, b.places);
    team_close(&w->team);
    tiles_end();
    answer(&s);
    return 0;
}

/* Each kernel against sums written out; run in a child process before the library is trusted. */
int self_test(void) {
    enum { K = 320, N = 64 }; /* deeper than what a kernel does at once */
    static _Alignas(64) float w[N * K], x[TILE * K], y[TILE * BLOCK];
    static _Alignas(64) int8_t q[TILE * (K + 64)];
    static float scale[TILE];
    static int from[N];
    if (tiles_asked()) return 1;
    tiles_begin();
    for (int i = 0; i < N * K; i++) w[i] = (float)((i * 7919) % 255 - 127);
    for (int i = 0; i < TILE * K; i++) x[i] = (float)((i * 104729) % 253 - 126);
    for (int i = 0; i < N; i++) from[i] = i, w[i * K] = 127.0f; /* scales are 1, and nothing is rounded */
    for (int i = 0; i < TILE; i++) x[i * K] = 127.0f;
    for (int i = 0; i < K; i++) x[i] = w[i] = 127.0f, w[K + i] = -127.0f; /* the largest sums */
    for (int quantized = 0; quantized < 2; quantized++) {
        Linear l;
        Region r = {0};
        linear_place(&l, &r, K, N, quantized);
        if (region_open(&r, r.used)) return 2;
        linear_place(&l, &r, K, N, quantized);
        Packing p = {.to = &l, .w = w, .columns = K, .from_row = from};
        if (pack_all(&p, 1, 2)) return 2;
        for (int rows = 1; rows <= TILE; rows++) {
            Rows in = {.q = q, .scale = scale, .x = x};
            if (quantized) quantize(x, rows, K, &in);
            product_block(&l, &in, 0, rows, 0, y);
            for (int i = 0; i < rows * N; i++) {
                double sum = 0.0;
                for (int k = 0; k < K; k++) sum += (double)x[i / N * K + k] * w[i % N * K + k];
                if (sum != (double)y[i]) return 3;
            }
        }
        region_close(&r);
    }
    tiles_end();
    uint16_t halves[LANES];
    const Floats *some = (const Floats *)(x + K); /* whole numbers, which halves hold */
    store_half(halves, *some);
    Floats again = load_half(halves);
    for (int i = 0; i < LANES && HALF; i++)
        if (again[i] != (*some)[i]) return 4;
    return 0;
}
