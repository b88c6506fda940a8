/* The Transformer's translation on a CPU: encoder, decoder and beam search, in int8 or float.

A sentence's translation depends neither on the rest of the batch nor on the number of threads, to the last bit. */
#pragma once
#include "job.h"
#include "worker.h"

#define TILES_REFUSED -2

/* Returns 0, -1 if memory runs out, or TILES_REFUSED. */
EXPORT int translate(Worker *w, const TranslationJob *job);

/* Checks each kernel against plain sums; returns 0 if all are correct. Run in a child process before the library is used. */
EXPORT int self_test(void);

/* The instructions of its int8 products, by the names of native/variants.py. */
EXPORT const char *instructions(void);

/* How many hypotheses a thread should translate at a time. */
EXPORT int batch_rows(void);
