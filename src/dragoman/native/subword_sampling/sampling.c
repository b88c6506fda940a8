/* Subword sampling for a batch: the same results as text/subword_sampling/segmentation.py, fast enough for training.

Sentences arrive as ids, are decoded to UTF-8 and segmented again word by word. The result depends only on the sentence and
its seed. Built with -ffp-contract=off: a fused multiply-add would differ from Python's numbers. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "token_tree.h"

typedef struct {
    uint64_t state;
    double scale; /* 1 / log(1 - alpha) */
    int64_t kept; /* candidates to keep before the next is dropped */
} RandomStream;

typedef struct {
    int32_t token, before, after, merged, start; /* merged: what this and the next one merge to, or negative */
} Symbol;

typedef struct {
    double sum; /* of the weights of all tokens with the same end that do not start later */
    int32_t start, token;
} Edge;

typedef struct {
    uint8_t *text;
    Symbol *symbols;
    uint64_t *queue, *dropped;
    Edge *edges;
    double *forward;
    int32_t *starts, *n_edges;
} Scratch;

static const double NEVER = 4611686018427387904.0; /* 2^62 */
static const double UNKNOWN_SCORE = -100.0;

/* SplitMix64 (Steele, Lea and Flood, 2014): number k of a seed depends only on seed and k. */
static double uniform(RandomStream *d) {
    uint64_t z = d->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static void draw_kept_run(RandomStream *d) {
    double run = log(1.0 - uniform(d)) * d->scale;
    d->kept = (int64_t)(run < NEVER ? run : NEVER);
}

static int is_dropped(RandomStream *d) {
    if (d->kept-- > 0) return 0;
    draw_kept_run(d);
    return 1;
}

static int32_t *write_token(const TokenTree *p, int32_t token, const uint8_t *from, const uint8_t *to, int32_t *out) {
    if (token >= 0 && token < p->vocabulary) {
        *out++ = token;
        return out;
    }
    while (from < to) *out++ = p->first - 256 + *from++;
    return out;
}

static void push(uint64_t *queue, int32_t *n, uint64_t key) {
    int32_t i = (*n)++;
    for (; i && queue[(i - 1) / 2] > key; i = (i - 1) / 2) queue[i] = queue[(i - 1) / 2];
    queue[i] = key;
}

static uint64_t pop(uint64_t *queue, int32_t *n) {
    uint64_t least = queue[0], last = queue[--*n];
    int32_t i = 0;
    for (int32_t child; (child = 2 * i + 1) < *n; i = child) {
        child += child + 1 < *n && queue[child + 1] < queue[child];
        if (queue[child] >= last) break;
        queue[i] = queue[child];
    }
    queue[i] = last;
    return least;
}

/* Queues symbol `i` of `n` and the next one, if they merge to a token. */
static void push_candidate(const TokenTree *p, Scratch *r, int32_t i, int32_t n, int32_t *n_queued) {
    Symbol *s = &r->symbols[i];
    int32_t next = s->after < n ? r->symbols[s->after].token : -1;
    s->merged = s->token >= 0 && next >= 0 ? map_find(&p->pairs, pair_key(s->token, next))->value : -1;
    if (s->merged >= 0) push(r->queue, n_queued, pair_key(s->merged, i));
}

/* BPE-dropout (Provilkov et al., 2020). */
static int32_t *sample_bpe(const TokenTree *p, Scratch *r, RandomStream *d, const uint8_t *word, const uint8_t *end, int32_t *out) {
    Symbol *s = r->symbols;
    int32_t n = 0, n_queued = 0, n_dropped = 0;
    for (const uint8_t *at = word; at < end; n++) {
        const uint8_t *next = at + character_bytes(at, end);
        s[n] = (Symbol){find_token(p, at, next), n - 1, n + 1, -1, (int32_t)(at - word)};
        at = next;
    }
    s[n].start = (int32_t)(end - word);
    for (int32_t i = 0; i < n; i++) push_candidate(p, r, i, n, &n_queued);
    while (n_queued) {
        uint64_t candidate = pop(r->queue, &n_queued);
        int32_t left = (int32_t)(uint32_t)candidate, merged = (int32_t)(candidate >> 32);
        if (s[left].merged != merged) continue; /* one of the two has since been merged with another symbol */
        if (is_dropped(d)) {
            r->dropped[n_dropped++] = candidate;
            continue;
        }
        while (n_dropped) push(r->queue, &n_queued, r->dropped[--n_dropped]);
        int32_t right = s[left].after, after = s[right].after;
        s[left].token = merged, s[left].after = after, s[right].merged = -1;
        if (after < n) s[after].before = left;
        push_candidate(p, r, left, n, &n_queued);
        if (s[left].before >= 0) push_candidate(p, r, s[left].before, n, &n_queued);
    }
    for (int32_t i = 0; i < n; i = s[i].after)
        out = write_token(p, s[i].token, word + s[i].start, word + s[s[i].after].start, out);
    return out;
}

/* Subword regularization (Kudo, 2018): sample by the probability of each segmentation to the power of `alpha`. */
static int32_t *sample_unigram(const TokenTree *p, Scratch *r, RandomStream *d, double alpha, const uint8_t *word, const uint8_t *end,
                            int32_t *out) {
    const size_t stride = (size_t)p->longest;
    int32_t n = 0, *starts = r->starts;
    for (const uint8_t *at = word; at < end; at += character_bytes(at, end)) {
        starts[n++] = (int32_t)(at - word);
        r->n_edges[n] = 0;
    }
    starts[n] = (int32_t)(end - word);
    r->forward[0] = 0.0;
    for (int32_t start = 0;; start++) {
        Edge *here = r->edges + (size_t)start * stride;
        if (start) { /* logarithms until all sums are complete */
            double highest = here[0].sum, sum = 0.0;
            for (int32_t i = 1; i < r->n_edges[start]; i++) highest = here[i].sum > highest ? here[i].sum : highest;
            for (int32_t i = 0; i < r->n_edges[start]; i++) here[i].sum = sum += exp(here[i].sum - highest);
            r->forward[start] = highest + log(sum);
        }
        if (start == n) break;
        int32_t node = 0;
        for (int32_t to = start + 1; to <= n; to++) {
            node = walk(p, node, word + starts[to - 1], word + starts[to]);
            int32_t token = node < 0 ? -1 : p->token_at[node];
            if (token >= 0 || to == start + 1) {
                double score = token < 0 ? UNKNOWN_SCORE : p->scores[token - p->first];
                Edge edge = {r->forward[start] + alpha * score, start, token};
                r->edges[(size_t)to * stride + (size_t)r->n_edges[to]++] = edge;
            }
            if (node < 0) break;
        }
    }
    int32_t chosen = 0; /* sampled from the end, written from the beginning */
    for (int32_t at = n; at; chosen++) {
        const Edge *edges = r->edges + (size_t)at * stride;
        int32_t last = r->n_edges[at] - 1, i = 0;
        double drawn = uniform(d) * edges[last].sum;
        while (i < last && edges[i].sum <= drawn) i++;
        r->symbols[chosen] = (Symbol){.token = edges[i].token, .start = starts[edges[i].start], .after = starts[at]};
        at = edges[i].start;
    }
    while (chosen--) {
        const Symbol *s = &r->symbols[chosen];
        out = write_token(p, s->token, word + s->start, word + s->after, out);
    }
    return out;
}

/* MaxMatch-dropout (Hiraoka, 2022). */
static int32_t *sample_wordpiece(const TokenTree *p, RandomStream *d, const uint8_t *word, const uint8_t *end, int32_t *out) {
    while (word < end) {
        const uint8_t *first = word + character_bytes(word, end), *to = first;
        int32_t found = -1, node = 0;
        for (const uint8_t *at = word; at < end;) {
            const uint8_t *next = at + character_bytes(at, end);
            node = walk(p, node, at, next);
            if (node < 0) break;
            at = next;
            if (p->token_at[node] < 0 || (at > first && is_dropped(d))) continue;
            found = p->token_at[node], to = at;
        }
        out = write_token(p, found, word, to, out);
        word = to;
    }
    return out;
}

static void scratch_close(Scratch *r) {
    void *all[] = {r->text, r->symbols, r->queue, r->dropped, r->edges, r->forward, r->starts, r->n_edges};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* Memory for a sentence of `bytes`, which has at most as many characters. */
static int scratch_open(Scratch *r, const TokenTree *p, size_t bytes) {
    size_t n = bytes + 1;
    *r = (Scratch){.text = malloc(n), .symbols = malloc(n * sizeof *r->symbols)};
    int failed = !r->text || !r->symbols;
    if (p->kind == BPE) { /* one candidate for each two neighbors, and two more for each merge */
        r->queue = malloc(3 * n * sizeof *r->queue);
        r->dropped = malloc(3 * n * sizeof *r->dropped);
        failed |= !r->queue || !r->dropped;
    } else if (p->kind == UNIGRAM) {
        r->edges = malloc(n * (size_t)p->longest * sizeof *r->edges);
        r->forward = malloc(n * sizeof *r->forward);
        r->starts = malloc(n * sizeof *r->starts);
        r->n_edges = malloc(n * sizeof *r->n_edges);
        failed |= !r->edges || !r->forward || !r->starts || !r->n_edges;
    }
    if (failed) scratch_close(r);
    return failed ? -1 : 0;
}

static size_t token_bytes(const TokenTree *p, int32_t id) { return (size_t)(p->offsets[id + 1] - p->offsets[id]); }

/* Segments `n` encoded sentences again, end to end in `ids` and in `out`, which has room for an id per byte of text. Words
begin at spaces. Returns -1 if memory runs out. */
EXPORT int resample(const TokenTree *p, int64_t n, const int32_t *ids, const int64_t *lengths, double alpha, double scale,
             const uint64_t *seeds, int32_t *out, int64_t *out_lengths) {
    size_t longest = 0;
    const int32_t *id = ids;
    for (int64_t i = 0; i < n; i++) {
        size_t bytes = 0;
        for (const int32_t *last = id + lengths[i]; id < last; id++) bytes += token_bytes(p, *id);
        if (bytes > longest) longest = bytes;
    }
    Scratch scratch;
    if (longest > INT32_MAX / 4 || scratch_open(&scratch, p, longest)) return -1;
    id = ids;
    for (int64_t i = 0; i < n; i++) {
        const int32_t *plain = id; /* the ids from here on write the text from `word` on */
        uint8_t *end = scratch.text;
        for (const int32_t *last = id + lengths[i]; id < last; id++) {
            memcpy(end, p->bytes + p->offsets[*id], token_bytes(p, *id));
            end += token_bytes(p, *id);
        }
        RandomStream d = {seeds[i], scale, 0};
        draw_kept_run(&d);
        int32_t *first_out = out;
        const uint8_t *at = scratch.text;
        for (const uint8_t *word = scratch.text, *next; word < end; word = next) {
            next = memchr(word + 1, ' ', (size_t)(end - word - 1));
            if (!next) next = end;
            if (p->kind == UNIGRAM) {
                out = sample_unigram(p, &scratch, &d, alpha, word, next, out);
            } else if (p->kind == WORDPIECE) {
                out = sample_wordpiece(p, &d, word, next, out);
            } else {
                int plain_word = at == word;
                int64_t merges = 0;
                const int32_t *from = plain;
                for (; at < next; at += token_bytes(p, *plain++)) {
                    merges += p->merges[*plain];
                    plain_word &= *plain >= p->first - 256; /* the space mark is not part of a word */
                }
                if (plain_word && at == next && merges <= d.kept) { /* nothing is dropped: the tokens are unchanged */
                    d.kept -= merges;
                    while (from < plain) *out++ = *from++;
                } else {
                    out = sample_bpe(p, &scratch, &d, word, next, out);
                }
            }
        }
        out_lengths[i] = out - first_out;
    }
    scratch_close(&scratch);
    return 0;
}

/* " abab!", where "!" has no token. One candidate is kept, the next is dropped: BPE then has "ab" once, WordPiece does not
find "abab". Unigram draws "abab", by far the likeliest. */
EXPORT int self_test(void) {
    enum { FIRST = 260, COUNT = 265, MARK = FIRST - 256 + '!' };
    const char *learned[] = {"ab", "abab", "a", "b", " "};
    const double scores[] = {-2, -3, -5, -5, -1};
    uint8_t bytes[256 + 16];
    int64_t offsets[COUNT + 1] = {0};
    for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i, offsets[FIRST - 256 + i + 1] = i + 1;
    for (int i = 0; i < COUNT - FIRST; i++) {
        size_t length = strlen(learned[i]);
        memcpy(bytes + offsets[FIRST + i], learned[i], length);
        offsets[FIRST + i + 1] = offsets[FIRST + i] + (int64_t)length;
    }
    const int32_t ids[] = {264, 261, MARK};
    const int32_t expected[3][5] = {{264, 260, 262, 263, MARK}, {264, 261, MARK}, {264, 260, 260, MARK}};
    const int64_t length = 3, lengths[] = {5, 3, 4};
    const uint64_t seed = 12; /* runs without a drop have lengths 1 and 4 */
    for (int32_t kind = BPE; kind <= WORDPIECE; kind++) {
        int32_t out[8] = {0};
        int64_t n_out = 0;
        TokenTree *p = tokens_new(kind, COUNT, COUNT, FIRST, bytes, offsets, scores);
        int failed = !p || resample(p, 1, ids, &length, 100.0, 1.0 / log(0.5), &seed, out, &n_out);
        tokens_free(p);
        if (failed || n_out != lengths[kind] || memcmp(out, expected[kind], (size_t)n_out * sizeof *out)) return 1;
    }
    return 0;
}
