/* Threads that share the work of a single batch.

Work is cut into chunks, and any free thread takes the next one. A thread that the system has suspended takes none, and the
others wait for it only if it was suspended within a chunk. If waiting costs too much, other processes need the processors,
and the pool shrinks to the caller. Threads spin between loops, which follow each other within microseconds, and exist for
one call of `translate`. Results do not depend on which thread runs a chunk. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#define MAX_THREADS 8

typedef void (*ChunkFunction)(void *work, int chunk, int thread);

typedef struct ThreadPool ThreadPool;
typedef struct {
    ThreadPool *pool;
    int number;
    pthread_t handle;
} PoolThread;

struct ThreadPool {
    _Alignas(64) _Atomic uint64_t ticket; /* generation, number of chunks, next chunk: 16 + 24 + 24 bits */
    _Alignas(64) _Atomic int done;
    _Alignas(64) _Atomic int stop;
    ChunkFunction function;
    void *work;
    int size, started;
    int own_chunks, all_chunks; /* done by the caller, and by all */
    double busy_seconds, wait_seconds;
    PoolThread threads[MAX_THREADS];
};

void pool_open(ThreadPool *pool, int size);
void pool_close(ThreadPool *pool);

/* Calls function(work, i, thread) for every i < chunks; returns when all are done. */
void parallel_for(ThreadPool *pool, int chunks, ChunkFunction function, void *work);
