/* Included before each source of a library: memory is given `granted` more times and then no more; `held` counts what was
   not returned. */
#pragma once
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

EXPORT extern _Atomic int granted, held;

int refused(void);
void *counted(void *p);
void returned(void *p);
int aligned(void **p, size_t alignment, size_t size);

#define malloc(size) (refused() ? NULL : counted(malloc(size)))
#define calloc(count, size) (refused() ? NULL : counted(calloc(count, size)))
#define aligned_alloc(alignment, size) (refused() ? NULL : counted(aligned_alloc(alignment, size)))
#define posix_memalign(p, alignment, size) aligned(p, alignment, size)
#define realloc(p, size) (refused() ? NULL : (p) ? realloc(p, size) : counted(realloc(NULL, size)))
#define mmap(...) (refused() ? MAP_FAILED : mmap(__VA_ARGS__))
#define free(p) returned(p)
