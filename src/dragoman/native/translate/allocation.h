/* Dynamic beam allocation (Post and Vilar, 2018), so that required phrases get written; search/constraints/beam.py. */
#pragma once
#include "search.h"

/* Writes the candidates that continue a sentence with required phrases, likeliest first, to s->candidates; returns their
number. Its hypotheses are the rows from `first` on. */
int allocate_slots(Search *s, const Sentence *of, int first, int position);
