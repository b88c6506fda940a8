/* Memory in large pages: the weights are read through once a step, and small pages would halve the speed of that. */
#pragma once
#include <stdlib.h>
#include <sys/mman.h>
#include "vectors.h"

#define LARGE_PAGE ((size_t)2 << 20)

typedef struct {
    char *start;
    size_t size, used;
} Region;

/* Room for `size` bytes, zeros, of which only what is touched is taken from the machine. */
static int region_open(Region *r, size_t size) {
    size = (size + 2 * LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    void *p = mmap(NULL, size + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return -1;
    size_t lead = (LARGE_PAGE - (size_t)p % LARGE_PAGE) % LARGE_PAGE;
    if (lead) munmap(p, lead);
    if (LARGE_PAGE - lead) munmap((char *)p + lead + size, LARGE_PAGE - lead);
    r->start = (char *)p + lead;
    r->size = size;
    r->used = 0;
#ifdef MADV_HUGEPAGE
    madvise(r->start, size, MADV_HUGEPAGE);
#endif
    return 0;
}

static void region_close(Region *r) {
    if (r->start) munmap(r->start, r->size);
    *r = (Region){0};
}

/* The next token of a region, on a cache line of its own; NULL for a region that only counts what will be needed. */
static void *take(Region *r, size_t bytes) {
    char *p = r->start ? r->start + r->used : NULL;
    r->used += (bytes + 127) & ~(size_t)127;
    return p;
}
