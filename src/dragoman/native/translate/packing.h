/* Packing of weights: from [outputs][inputs] in float, or in int8 with a scale per row, to the blocks of `Linear`. */
#pragma once
#include "kernels/linear.h"
#include "memory.h"

/* The weights of one product: output i is row from_row[i] of w or w8 (-1: none), input j is column from_column[j]. */
typedef struct {
    Linear *to;
    const float *w, *bias, *row_scales;
    const int8_t *w8; /* instead of w */
    int columns;
    int *from_row, *from_column;
    float factor; /* of the first `scaled` outputs */
    int scaled;
} Packing;

/* Allocates a linear's arrays in a region. */
void linear_alloc(Linear *l, Region *r, int k, int n, int quantized);

/* Returns 0, or -1 if memory runs out. */
int pack_all(Packing *packings, int count, int threads);
