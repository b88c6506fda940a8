/* The layout of the structures that Python mirrors, compared when the library is loaded (native/build.py). */
#include <stddef.h>
#include "forced.h"
#include "job.h"
#include "model.h"

#define STRUCTURE(type) {#type, 0, sizeof(type)}
#define FIELD(type, field) {#type "." #field, offsetof(type, field), sizeof(((type *)0)->field)}
#define CONFIG(field) FIELD(ModelConfig, field)
#define JOB(field) FIELD(TranslationJob, field)
#define FORCED(field) FIELD(ForcedJob, field)
#define SPELLING(field) FIELD(VocabularySpelling, field)
#define TRIE(field) FIELD(PhraseTrie, field)
#define AVOIDED(field) FIELD(AvoidedAutomaton, field)
#define REQUIRED(field) FIELD(RequiredAutomaton, field)
#define CONSTRAINTS(field) FIELD(SentenceConstraints, field)

typedef struct {
    const char *name;
    size_t offset, size;
} Layout;

EXPORT const Layout structure_layouts[] = {
    STRUCTURE(ModelConfig), CONFIG(d_model), CONFIG(heads), CONFIG(d_k), CONFIG(d_v), CONFIG(d_ff),
    CONFIG(encoder_layers), CONFIG(decoder_layers), CONFIG(source_vocabulary), CONFIG(target_vocabulary),
    CONFIG(activation), CONFIG(positions), CONFIG(max_positions), CONFIG(pre_norm), CONFIG(quantized), CONFIG(threads),
    CONFIG(max_distance), CONFIG(ssru), CONFIG(epsilon),
    STRUCTURE(TranslationJob), JOB(sentences), JOB(beam), JOB(n_best), JOB(min_length), JOB(no_repeat), JOB(max_length),
    JOB(threads), JOB(source), JOB(source_lengths), JOB(limits), JOB(prefix), JOB(prefix_lengths), JOB(normalizers),
    JOB(tokens), JOB(lengths), JOB(scores), JOB(log_probabilities),
    JOB(models), JOB(mean), JOB(workers), JOB(sampled), JOB(top_k), JOB(temperature), JOB(top_p), JOB(keys),
    JOB(recorded), JOB(recorded_layers), JOB(recorded_heads), JOB(longest_source), JOB(maps), JOB(spelling),
    JOB(constraints), JOB(stop),
    STRUCTURE(ForcedJob), FORCED(sentences), FORCED(threads), FORCED(source), FORCED(source_lengths), FORCED(target),
    FORCED(target_lengths), FORCED(log_probabilities), FORCED(encoder_maps), FORCED(decoder_maps), FORCED(cross_maps),
    FORCED(models), FORCED(mean), FORCED(workers),
    STRUCTURE(VocabularySpelling), SPELLING(width), SPELLING(stream), SPELLING(first), SPELLING(last),
    STRUCTURE(PhraseTrie), TRIE(first_edge), TRIE(edges), TRIE(shorter),
    STRUCTURE(AvoidedAutomaton), AVOIDED(trie), AVOIDED(full),
    STRUCTURE(RequiredAutomaton), REQUIRED(groups), REQUIRED(starts), REQUIRED(max_follows), REQUIRED(trie), REQUIRED(ending),
    REQUIRED(length), REQUIRED(credit), REQUIRED(needed), REQUIRED(min_tokens), REQUIRED(saved), REQUIRED(nested),
    REQUIRED(first_follow), REQUIRED(follows), REQUIRED(start_tokens),
    STRUCTURE(SentenceConstraints), CONSTRAINTS(required), CONSTRAINTS(avoided),
    {NULL, 0, 0},
};
