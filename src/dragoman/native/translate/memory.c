#include "memory.h"
#include <stdlib.h>

#if defined(_WIN32)
#include <malloc.h>
#include <windows.h>

void *alloc_aligned(size_t bytes) { return _aligned_malloc(bytes, 64); }
void free_aligned(void *p) { _aligned_free(p); }

/* Pages get memory when they are touched; large pages need a privilege that users rarely have. */
int region_open(Region *r, size_t size) {
    void *p = VirtualAlloc(NULL, size ? size : 1, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    if (!p) return -1;
    *r = (Region){p, size, 0};
    return 0;
}

void region_close(Region *r) {
    if (r->start) VirtualFree(r->start, 0, MEM_RELEASE);
    *r = (Region){0};
}

#else
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20)

void *alloc_aligned(size_t bytes) {
    void *p = NULL;
    return posix_memalign(&p, 64, bytes) ? NULL : p;
}

void free_aligned(void *p) { free(p); }

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
#endif

void *region_alloc(Region *r, size_t bytes) {
    char *p = r->start ? r->start + r->used : NULL;
    r->used += (bytes + 127) & ~(size_t)127;
    return p;
}
