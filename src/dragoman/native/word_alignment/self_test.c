#include "model.h"

/* Three pairs of two words, of which each translates the other at the same place. */
int self_test(void) {
    static const int32_t source[] = {4, 5, 5, 6, 6, 4}, target[] = {7, 8, 8, 9, 9, 7};
    static const int64_t offsets[] = {0, 2, 4, 6};
    Pairs pairs = {3, source, target, offsets, offsets};
    Model *m = model_new(256, 10, 1);
    int32_t best[6];
    uint32_t links[12];
    int64_t counts[3];
    int failed = !m || model_train(m, &pairs, 4) || model_align(m, &pairs, best) || symmetrize(&pairs, best, best, links, counts);
    for (int i = 0; i < 6 && !failed; i++) failed = best[i] != i % 2 || links[i] != (i % 2 ? 1u << 16 | 1u : 0);
    model_free(m);
    return failed || counts[0] != 2;
}
