#include "memory.h"
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)

int region_open(Region *r, size_t size) {
    size = (size + 2 * LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    void *p = mmap(NULL, size + LARGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return -1;
    size_t skipped = (LARGE_PAGE - (size_t)p % LARGE_PAGE) % LARGE_PAGE;
    if (skipped) munmap(p, skipped);
    if (LARGE_PAGE - skipped) munmap((char *)p + skipped + size, LARGE_PAGE - skipped);
    r->start = (char *)p + skipped;
    r->size = size;
    r->used = 0;
#ifdef MADV_HUGEPAGE
    madvise(r->start, size, MADV_HUGEPAGE);
#endif
    return 0;
}

void region_close(Region *r) {
    if (r->start) munmap(r->start, r->size);
    *r = (Region){0};
}

void *region_alloc(Region *r, size_t bytes) {
    char *p = r->start ? r->start + r->used : NULL;
    r->used += (bytes + 127) & ~(size_t)127;
    return p;
}
