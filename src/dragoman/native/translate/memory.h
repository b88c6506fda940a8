/* Memory regions in large pages: weights are read once per step, and small pages would halve that speed. */
#pragma once
#include <stddef.h>

typedef struct {
    char *start;
    size_t size, used;
} Region;

/* Maps `size` zeroed bytes, committed as they are touched; returns -1 if memory runs out. */
int region_open(Region *r, size_t size);
void region_close(Region *r);

/* Memory on its own cache line, outside of regions; NULL if memory runs out. */
void *alloc_aligned(size_t bytes);
void free_aligned(void *p);

/* The next `bytes` of a region, on their own cache lines; NULL for a region that only counts bytes. */
void *region_alloc(Region *r, size_t bytes);
