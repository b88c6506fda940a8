/* Positions of tokens, section 3.5 and its variations: sinusoids that are added, or that rotate queries and keys. */
#pragma once
#include "worker.h"

/* PE(pos, 2i) = sin(pos / 10000^(2i / d)) and PE(pos, 2i + 1) its cosine, for positions up to n: d_model features in their
order, or d_k features for rotations, as alternating vectors of sines and cosines, interleaved like the heads. Returns -1 if
memory runs out. */
int extend_position_codes(Worker *w, int n);

/* Rotary positions (Su et al., 2021): rotates each pair of features of the queries and keys in w->projected. */
void rotate(Worker *w, const int32_t *at, int rows, int stride);
