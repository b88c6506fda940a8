/* The tokens of a vocabulary as a tree of bytes, and for BPE which two merge to which. */
#pragma once
#include <stdint.h>
#include <stdlib.h>

enum { BPE, UNIGRAM, WORDPIECE };

typedef struct {
    uint64_t key;
    int32_t value; /* under 0: nothing here */
} Entry;

typedef struct {
    Entry *entries;
    uint64_t size, used; /* the size is a power of two, and at least twice what is used */
    int shift;
} Map;

typedef struct {
    int32_t kind, vocabulary, first; /* from `vocabulary` on: characters that are parts of tokens but are none */
    int32_t longest;                 /* in characters */
    const uint8_t *bytes;            /* what each token writes; like the two below it belongs to the caller */
    const int64_t *offsets;
    const double *scores; /* from token `first` on */
    Map children, pairs;  /* (node, byte) -> node; (token, token) -> what they merge to */
    int32_t *token_at, nodes;
    int32_t *merges; /* how many it takes to make each token of characters */
} Tokens;

static Entry *place(const Map *m, uint64_t key) {
    uint64_t i = key * 0x9E3779B97F4A7C15u >> m->shift;
    while (m->entries[i].value >= 0 && m->entries[i].key != key) i = (i + 1) & (m->size - 1);
    return &m->entries[i];
}

static int map_open(Map *m, int bits) {
    *m = (Map){.entries = malloc(sizeof(Entry) << bits), .size = (uint64_t)1 << bits, .shift = 64 - bits};
    for (uint64_t i = 0; m->entries && i < m->size; i++) m->entries[i].value = -1;
    return m->entries ? 0 : -1;
}

static int put(Map *m, uint64_t key, int32_t value) {
    if (2 * (m->used + 1) > m->size) {
        Map wider;
        if (map_open(&wider, 65 - m->shift)) return -1;
        wider.used = m->used;
        for (uint64_t i = 0; i < m->size; i++)
            if (m->entries[i].value >= 0) *place(&wider, m->entries[i].key) = m->entries[i];
        free(m->entries);
        *m = wider;
    }
    *place(m, key) = (Entry){key, value};
    m->used++;
    return 0;
}

static uint64_t of_two(int32_t high, int32_t low) { return (uint64_t)(uint32_t)high << 32 | (uint32_t)low; }

/* The node after `from .. to` below `node`, -1 where no token goes on like that. */
static int32_t walk(const Tokens *p, int32_t node, const uint8_t *from, const uint8_t *to) {
    for (; node >= 0 && from < to; from++) node = place(&p->children, of_two(node, *from))->value;
    return node;
}

static int32_t find(const Tokens *p, const uint8_t *from, const uint8_t *to) {
    int32_t node = walk(p, 0, from, to);
    return node < 0 ? -1 : p->token_at[node];
}

/* The bytes of the character here; a byte that begins none counts as one. */
static int width(const uint8_t *at, const uint8_t *end) {
    int n = *at < 0xC2 ? 1 : *at < 0xE0 ? 2 : *at < 0xF0 ? 3 : *at < 0xF5 ? 4 : 1;
    if (n > end - at) return 1;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xC0) != 0x80) return 1;
    return n;
}

static int add_token(Tokens *p, int32_t token) {
    const uint8_t *at = p->bytes + p->offsets[token], *end = p->bytes + p->offsets[token + 1];
    int32_t node = 0, characters = 0;
    for (const uint8_t *c = at; c < end; c += width(c, end)) characters++;
    if (characters > p->longest) p->longest = characters;
    p->merges[token] = characters - 1;
    for (; at < end; at++) {
        int32_t next = walk(p, node, at, at + 1);
        if (next < 0) {
            next = p->nodes++;
            p->token_at[next] = -1;
            if (put(&p->children, of_two(node, *at), next)) return -1;
        }
        node = next;
    }
    p->token_at[node] = token;
    return 0;
}

/* Every two tokens that make up this one. */
static int add_pairs(Tokens *p, int32_t token) {
    const uint8_t *from = p->bytes + p->offsets[token], *end = p->bytes + p->offsets[token + 1];
    if (from == end) return 0;
    for (const uint8_t *cut = from + width(from, end); cut < end; cut += width(cut, end)) {
        int32_t left = find(p, from, cut), right = find(p, cut, end);
        if (left >= 0 && right >= 0 && put(&p->pairs, of_two(left, right), token)) return -1;
    }
    return 0;
}

void tokens_free(Tokens *p) {
    if (!p) return;
    free(p->children.entries);
    free(p->pairs.entries);
    free(p->token_at);
    free(p->merges);
    free(p);
}

/* `count` tokens, of which those from `first` on are found in text; NULL where there is no memory. */
Tokens *tokens_new(int32_t kind, int32_t count, int32_t vocabulary, int32_t first, const uint8_t *bytes,
                   const int64_t *offsets, const double *scores) {
    Tokens *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->kind = kind, p->vocabulary = vocabulary, p->first = first, p->longest = 1, p->nodes = 1;
    p->bytes = bytes, p->offsets = offsets, p->scores = scores;
    p->token_at = malloc((size_t)(offsets[count] - offsets[first] + 1) * sizeof *p->token_at);
    p->merges = calloc((size_t)count, sizeof *p->merges);
    int failed = !p->token_at || !p->merges || map_open(&p->children, 10) || map_open(&p->pairs, 10);
    if (!failed) p->token_at[0] = -1;
    for (int32_t i = first; i < count && !failed; i++) failed = add_token(p, i);
    for (int32_t i = first; i < vocabulary && kind == BPE && !failed; i++) failed = add_pairs(p, i);
    if (!failed) return p;
    tokens_free(p);
    return NULL;
}
