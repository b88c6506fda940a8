/* A source of ours, SOURCE, on a machine that gives memory `granted` more times and then no more;
   `held` counts what was not returned. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

_Atomic int granted, held;

static int refused(void) { return atomic_fetch_sub(&granted, 1) <= 0; }

static void *counted(void *p) {
    if (p) atomic_fetch_add(&held, 1);
    return p;
}

static void returned(void *p) {
    if (p) atomic_fetch_sub(&held, 1);
    free(p);
}

static int aligned(void **p, size_t alignment, size_t size) {
    return refused() || posix_memalign(p, alignment, size) || !counted(*p);
}

#define malloc(size) (refused() ? NULL : counted(malloc(size)))
#define calloc(count, size) (refused() ? NULL : counted(calloc(count, size)))
#define aligned_alloc(alignment, size) (refused() ? NULL : counted(aligned_alloc(alignment, size)))
#define posix_memalign(p, alignment, size) aligned(p, alignment, size)
#define realloc(p, size) (refused() ? NULL : (p) ? realloc(p, size) : counted(realloc(NULL, size)))
#define mmap(...) (refused() ? MAP_FAILED : mmap(__VA_ARGS__))
#define free(p) returned(p)
#include SOURCE
