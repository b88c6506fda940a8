/* The tokens of a vocabulary as a tree of bytes, and the merges of BPE.

The lookups are inline: sampling calls them for every byte. */
#pragma once
#include <stdint.h>

enum { BPE, UNIGRAM, WORDPIECE };

typedef struct {
    uint64_t key;
    int32_t value; /* negative: empty */
} Entry;

typedef struct {
    Entry *entries;
    uint64_t size, used; /* the size is a power of two, and at least twice the number of entries */
    int shift;
} Map;

typedef struct {
    int32_t kind, vocabulary, first; /* from `vocabulary` on: characters inside tokens that have no token of their own */
    int32_t longest;                 /* in characters */
    const uint8_t *bytes;            /* of each token; like the two below in the caller's memory */
    const int64_t *offsets;
    const double *scores; /* from token `first` on */
    Map children, pairs;  /* (node, byte) -> node; (token, token) -> merged token */
    int32_t *token_at, nodes;
    int32_t *merges; /* needed to build each token from characters */
} TokenTree;

static inline Entry *map_find(const Map *m, uint64_t key) {
    uint64_t i = key * 0x9E3779B97F4A7C15u >> m->shift;
    while (m->entries[i].value >= 0 && m->entries[i].key != key) i = (i + 1) & (m->size - 1);
    return &m->entries[i];
}

static inline uint64_t pair_key(int32_t high, int32_t low) { return (uint64_t)(uint32_t)high << 32 | (uint32_t)low; }

/* The node below `node` after the bytes `from .. to`; -1 if no token continues with them. */
static inline int32_t walk(const TokenTree *p, int32_t node, const uint8_t *from, const uint8_t *to) {
    for (; node >= 0 && from < to; from++) node = map_find(&p->children, pair_key(node, *from))->value;
    return node;
}

static inline int32_t find_token(const TokenTree *p, const uint8_t *from, const uint8_t *to) {
    int32_t node = walk(p, 0, from, to);
    return node < 0 ? -1 : p->token_at[node];
}

/* The bytes of the UTF-8 character at `at`; an invalid byte counts as one. */
static inline int character_bytes(const uint8_t *at, const uint8_t *end) {
    int n = *at < 0xC2 ? 1 : *at < 0xE0 ? 2 : *at < 0xF0 ? 3 : *at < 0xF5 ? 4 : 1;
    if (n > end - at) return 1;
    for (int i = 1; i < n; i++)
        if ((at[i] & 0xC0) != 0x80) return 1;
    return n;
}

/* `count` tokens; those from `first` on occur in text. Returns NULL if memory runs out. */
EXPORT TokenTree *tokens_new(int32_t kind, int32_t count, int32_t vocabulary, int32_t first, const uint8_t *bytes,
                             const int64_t *offsets, const double *scores);
EXPORT void tokens_free(TokenTree *p);
