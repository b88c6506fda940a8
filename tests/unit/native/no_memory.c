/* The counters of no_memory.h. */
#undef malloc
#undef calloc
#undef aligned_alloc
#undef posix_memalign
#undef realloc
#undef mmap
#undef free

_Atomic int granted, held;

int refused(void) { return atomic_fetch_sub(&granted, 1) <= 0; }

void *counted(void *p) {
    if (p) atomic_fetch_add(&held, 1);
    return p;
}

void returned(void *p) {
    if (p) atomic_fetch_sub(&held, 1);
    free(p);
}

int aligned(void **p, size_t alignment, size_t size) {
    return refused() || posix_memalign(p, alignment, size) || !counted(*p);
}
