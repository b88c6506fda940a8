/* memory.c of the C engine for AddressSanitizer: the regions get poisoned gaps, so that it sees what overruns an array. */
#include "memory.h"
#include <sanitizer/asan_interface.h>
#include <stdlib.h>
#include <sys/mman.h>

#define GAP 128

void *alloc_aligned(size_t bytes) {
    void *p = NULL;
    return posix_memalign(&p, 64, bytes) ? NULL : p;
}

void free_aligned(void *p) { free(p); }

int region_open(Region *r, size_t size) {
    size = (size + 4096) & ~(size_t)4095;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return -1;
    *r = (Region){p, size, 0};
    return 0;
}

void region_close(Region *r) {
    if (r->start) {
        __asan_unpoison_memory_region(r->start, r->size);
        munmap(r->start, r->size);
    }
    *r = (Region){0};
}

void *region_alloc(Region *r, size_t bytes) {
    size_t rounded = (bytes + 127) & ~(size_t)127; /* kernels may use the rest of a cache line */
    char *p = r->start ? r->start + r->used : NULL;
    if (p) {
        __asan_unpoison_memory_region(p, rounded);
        __asan_poison_memory_region(p + rounded, GAP);
    }
    r->used += rounded + GAP;
    return p;
}
