#include "token_tree.h"
#include <stdlib.h>

static int map_open(Map *m, int bits) {
    *m = (Map){.entries = malloc(sizeof(Entry) << bits), .size = (uint64_t)1 << bits, .shift = 64 - bits};
    for (uint64_t i = 0; m->entries && i < m->size; i++) m->entries[i].value = -1;
    return m->entries ? 0 : -1;
}

static int map_insert(Map *m, uint64_t key, int32_t value) {
    if (2 * (m->used + 1) > m->size) {
        Map wider;
        if (map_open(&wider, 65 - m->shift)) return -1;
        wider.used = m->used;
        for (uint64_t i = 0; i < m->size; i++)
            if (m->entries[i].value >= 0) *map_find(&wider, m->entries[i].key) = m->entries[i];
        free(m->entries);
        *m = wider;
    }
    *map_find(m, key) = (Entry){key, value};
    m->used++;
    return 0;
}

static int add_token(TokenTree *p, int32_t token) {
    const uint8_t *at = p->bytes + p->offsets[token], *end = p->bytes + p->offsets[token + 1];
    int32_t node = 0, characters = 0;
    for (const uint8_t *c = at; c < end; c += character_bytes(c, end)) characters++;
    if (characters > p->longest) p->longest = characters;
    p->merges[token] = characters - 1;
    for (; at < end; at++) {
        int32_t next = walk(p, node, at, at + 1);
        if (next < 0) {
            next = p->nodes++;
            p->token_at[next] = -1;
            if (map_insert(&p->children, pair_key(node, *at), next)) return -1;
        }
        node = next;
    }
    p->token_at[node] = token;
    return 0;
}

/* Adds every pair of tokens that merges to this one. */
static int add_pairs(TokenTree *p, int32_t token) {
    const uint8_t *from = p->bytes + p->offsets[token], *end = p->bytes + p->offsets[token + 1];
    if (from == end) return 0;
    for (const uint8_t *cut = from + character_bytes(from, end); cut < end; cut += character_bytes(cut, end)) {
        int32_t left = find_token(p, from, cut), right = find_token(p, cut, end);
        if (left >= 0 && right >= 0 && map_insert(&p->pairs, pair_key(left, right), token)) return -1;
    }
    return 0;
}

void tokens_free(TokenTree *p) {
    if (!p) return;
    free(p->children.entries);
    free(p->pairs.entries);
    free(p->token_at);
    free(p->merges);
    free(p);
}

TokenTree *tokens_new(int32_t kind, int32_t count, int32_t vocabulary, int32_t first, const uint8_t *bytes,
                      const int64_t *offsets, const double *scores) {
    TokenTree *p = calloc(1, sizeof *p);
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
