/* Packing of weights: from [outputs][inputs] in float to the blocks of `Linear`. */
#pragma once
#include "kernels/linear.h"
#include "memory.h"

/* The weights of one product: output i is row from_row[i] of w (-1: none), input j is column from_column[j]. */
typedef struct {
    Linear *to;
    const float *w, *bias;
    int columns;
    int *from_row, *from_column;
    float factor; /* of the first `scaled` outputs */
    int scaled;
} Packing;

/* Allocates a linear's arrays in a region. */
void linear_alloc(Linear *l, Region *r, int k, int n, int quantized);

/* Returns 0, or -1 if memory runs out. */
int pack_all(Packing *packings, int count, int threads);
