/* Lexical constraints: phrases that a translation must contain or must not; search/constraints/ is the reference. */
#pragma once
#include <stdint.h>

/* Filled in by Python, as all of these: engines/native_layout.py. What each token writes, as symbols. */
typedef struct {
    int32_t width;
    const int16_t *stream;      /* [token][width], the last symbol of each is NOTHING */
    const int8_t *first, *last; /* [token], the kinds of its first and last character */
} VocabularySpelling;

/* A trie of phrases with failure links (Aho and Corasick, 1975); state 0 is the root. */
typedef struct {
    const int32_t *first_edge; /* [state + 1] */
    const int32_t *edges;      /* (symbol, state), by symbol */
    const int32_t *shorter;    /* [state], the failure link */
} PhraseTrie;

/* Follows what was written, to find avoided phrases. */
typedef struct {
    PhraseTrie trie;
    const uint8_t *full; /* [state], whether a phrase ends there */
} AvoidedAutomaton;

/* Follows what was written, to find required phrases; search/constraints/tables.py explains the tables. */
typedef struct {
    int32_t groups, starts, max_follows;
    PhraseTrie trie;
    const uint8_t *ending;                      /* [state], whether a phrase ends there */
    const int32_t *length, *credit;             /* [state][group] */
    const int32_t *needed, *min_tokens, *saved; /* [group] */
    const int32_t *nested;                      /* [group][group] */
    const int32_t *first_follow;                /* [state + 1] */
    const int32_t *follows;                     /* (token, group) */
    const int32_t *start_tokens;                /* (token, group, whether it may follow any text) */
} RequiredAutomaton;

/* Of a sentence; NULL for none. */
typedef struct {
    const RequiredAutomaton *required;
    const AvoidedAutomaton *avoided;
} SentenceConstraints;

/* How far a hypothesis has come. */
typedef struct {
    int32_t required_state, avoided_state;
    int32_t last;           /* the kind of the last character */
    int32_t length;         /* number of symbols */
    int32_t *met, *reached; /* [group], occurrences, and the symbol at which the last one ended */
} Progress;

/* The progress of an empty hypothesis; its arrays are kept. */
void begin_progress(const SentenceConstraints *c, Progress *progress);

/* The progress after one more token; may overwrite the progress before it. */
void advance_progress(const VocabularySpelling *v, const SentenceConstraints *c, const Progress *before, int32_t token,
                      Progress *after);

/* Whether a token would complete an avoided phrase. */
int completes_avoided(const VocabularySpelling *v, const AvoidedAutomaton *a, const Progress *progress, int32_t token);

/* Number of required tokens still to be written, less those of a phrase already begun; *lacks: whether a phrase is missing. */
int64_t missing_tokens(const RequiredAutomaton *a, const Progress *progress, int *lacks);

/* Writes the tokens that advance a required phrase, some of them maybe twice; returns their number. */
int advancing_tokens(const RequiredAutomaton *a, const Progress *progress, int32_t *tokens);
