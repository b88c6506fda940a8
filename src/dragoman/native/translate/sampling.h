/* Ancestral sampling; search/sampling.py is the reference. */
#pragma once
#include "search.h"

/* Draws n_best hypotheses for each sentence, independently of each other. */
void run_sampling(Search *s, int32_t *ids, int32_t *at, DecoderRow *decoder_rows);
