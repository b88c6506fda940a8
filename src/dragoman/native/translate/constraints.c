#include "constraints.h"
#include <string.h>

enum { EDGE = 256, UNCLEAR, NOTHING }; /* a byte, or one of these */
enum { OTHER, WORD, BYTE, OPENING, SILENT };    /* kinds of characters; silent tokens write nothing */

/* The boundary between characters of these kinds. */
static const int16_t between[OPENING + 1][SILENT + 1] = {
    [OTHER] = {EDGE, EDGE, EDGE, EDGE, NOTHING},
    [WORD] = {EDGE, NOTHING, UNCLEAR, EDGE, NOTHING},
    [BYTE] = {EDGE, UNCLEAR, UNCLEAR, EDGE, NOTHING},
    [OPENING] = {EDGE, EDGE, EDGE, EDGE, NOTHING},
};

static int32_t next_state(const PhraseTrie *t, int32_t state, int symbol) {
    for (;; state = t->shorter[state]) {
        int low = t->first_edge[state], high = t->first_edge[state + 1];
        while (high - low > 4) {
            int middle = (low + high) / 2;
            if (t->edges[2 * middle] > symbol) high = middle;
            else low = middle;
        }
        for (; low < high; low++)
            if (t->edges[2 * low] == symbol) return t->edges[2 * low + 1];
        if (!state) return 0;
    }
}

/* The same for avoided phrases: unclear boundaries count as boundaries. */
static int32_t next_avoided(const AvoidedAutomaton *a, int32_t state, int symbol) {
    return symbol == NOTHING ? state : next_state(&a->trie, state, symbol == UNCLEAR ? EDGE : symbol);
}

void begin_progress(const SentenceConstraints *c, Progress *progress) {
    *progress = (Progress){.last = OTHER, .met = progress->met, .reached = progress->reached};
    size_t bytes = c->required ? sizeof(int32_t) * (size_t)c->required->groups : 0;
    if (bytes) memset(progress->met, 0, bytes), memset(progress->reached, 0, bytes);
}

/* Counts the phrases that end in a state, unless they overlap with their last occurrence. */
static void count_phrases(const RequiredAutomaton *a, Progress *p) {
    const int32_t *length = a->length + (size_t)p->required_state * (size_t)a->groups;
    int32_t end = p->length - 1; /* without the boundary after it */
    for (int g = 0; g < a->groups; g++)
        if (length[g] > 0 && end - length[g] >= p->reached[g]) p->met[g]++, p->reached[g] = end;
}

void advance_progress(const VocabularySpelling *v, const SentenceConstraints *c, const Progress *before, int32_t token,
                      Progress *after) {
    const RequiredAutomaton *required = c->required;
    const AvoidedAutomaton *avoided = c->avoided;
    if (required && before != after) {
        memcpy(after->met, before->met, sizeof(int32_t) * (size_t)required->groups);
        memcpy(after->reached, before->reached, sizeof(int32_t) * (size_t)required->groups);
    }
    Progress p = *before;
    p.met = after->met, p.reached = after->reached;
    const int16_t *stream = v->stream + (size_t)token * (size_t)v->width;
    int symbol = between[p.last][v->first[token]];
    for (int i = -1; i < 0 || (symbol = stream[i]) != NOTHING; i++) {
        if (symbol == NOTHING) continue;
        p.length++;
        if (avoided) p.avoided_state = next_avoided(avoided, p.avoided_state, symbol);
        if (!required) continue;
        p.required_state = next_state(&required->trie, p.required_state, symbol);
        if (required->ending[p.required_state]) count_phrases(required, &p);
    }
    if (v->last[token] != SILENT) p.last = v->last[token];
    *after = p;
}

int completes_avoided(const VocabularySpelling *v, const AvoidedAutomaton *a, const Progress *progress, int32_t token) {
    const int16_t *stream = v->stream + (size_t)token * (size_t)v->width;
    int32_t state = next_avoided(a, progress->avoided_state, between[progress->last][v->first[token]]);
    for (; *stream != NOTHING; stream++) {
        state = next_avoided(a, state, *stream);
        if (a->full[state] && stream[1] >= EDGE) return 1; /* at a boundary, or at the end of the token */
    }
    return 0;
}

static int is_missing(const RequiredAutomaton *a, const Progress *p, int group) { return p->met[group] < a->needed[group]; }

int64_t missing_tokens(const RequiredAutomaton *a, const Progress *p, int *lacks) {
    const int32_t *credit = a->credit + (size_t)p->required_state * (size_t)a->groups;
    int64_t required = 0, written = 0;
    *lacks = 0;
    for (int g = 0; g < a->groups; g++) {
        if (!is_missing(a, p, g)) continue;
        *lacks = 1;
        int64_t alone = a->needed[g] - p->met[g], saved = p->last == OPENING ? a->saved[g] : 0;
        const int32_t *nested = a->nested + (size_t)g * (size_t)a->groups;
        for (int h = 0; h < a->groups; h++) /* those inside longer phrases come with them */
            if (nested[h] && is_missing(a, p, h)) alone -= (int64_t)nested[h] * (a->needed[h] - p->met[h]);
        if (alone > 0) required += alone * a->min_tokens[g];
        saved = credit[g] > saved ? credit[g] : saved;
        written = saved > written ? saved : written;
    }
    return required > written ? required - written : 0;
}

int advancing_tokens(const RequiredAutomaton *a, const Progress *p, int32_t *tokens) {
    int count = 0;
    for (int i = a->first_follow[p->required_state]; i < a->first_follow[p->required_state + 1]; i++)
        if (is_missing(a, p, a->follows[2 * i + 1])) tokens[count++] = a->follows[2 * i];
    for (int i = 0; i < a->starts; i++) {
        const int32_t *start = a->start_tokens + 3 * i;
        if (is_missing(a, p, start[1]) && (start[2] || p->last == OPENING)) tokens[count++] = start[0];
    }
    return count;
}
