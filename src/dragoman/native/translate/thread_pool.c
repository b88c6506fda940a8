#define _GNU_SOURCE
#include "thread_pool.h"
#include <sched.h>
#include <string.h>
#include <time.h>
#include "kernels/int8_kernels.h"

#define WAIT_SECONDS 5e-4 /* waiting time allowed, in addition to a share of the working time */
#define WAIT_SHARE 0.3
#define TRIAL_CHUNKS 64 /* by then the other threads must have done at least a seventh */
#define SPIN_PAUSES 1000 /* then a thread yields its processor */

#define CHUNKS_OF(ticket) ((int)((ticket) >> 24 & 0xffffff))
#define NEXT_OF(ticket) ((int)((ticket)&0xffffff))

static inline void pause_briefly(void) {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs chunks until none is left. The ticket also holds their number, which tells generations apart. */
static int run_chunks(ThreadPool *pool, int thread) {
    for (int taken = 0;;) {
        uint64_t now = atomic_load_explicit(&pool->ticket, memory_order_acquire);
        if (NEXT_OF(now) >= CHUNKS_OF(now)) return taken;
        if (!atomic_compare_exchange_weak_explicit(&pool->ticket, &now, now + 1, memory_order_acq_rel, memory_order_relaxed))
            continue;
        pool->function(pool->work, NEXT_OF(now), thread);
        atomic_fetch_add_explicit(&pool->done, 1, memory_order_release);
        taken++;
    }
}

static void *thread_main(void *argument) {
    PoolThread *t = argument;
    tiles_begin();
    for (int idle = 0; !atomic_load_explicit(&t->pool->stop, memory_order_acquire); idle++) {
        if (run_chunks(t->pool, t->number)) idle = 0;
        pause_briefly();
        if (idle > SPIN_PAUSES) sched_yield();
    }
    tiles_end();
    return NULL;
}

void parallel_for(ThreadPool *pool, int chunks, ChunkFunction function, void *work) {
    if (pool->size <= 1 || chunks <= 1) {
        for (int i = 0; i < chunks; i++) function(work, i, 0);
        return;
    }
    uint64_t old = atomic_load_explicit(&pool->ticket, memory_order_relaxed);
    pool->function = function;
    pool->work = work;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->ticket, ((old >> 48) + 1) << 48 | (uint64_t)chunks << 24, memory_order_release);
    double start = seconds();
    pool->own_chunks += run_chunks(pool, 0);
    pool->all_chunks += chunks;
    double finished = seconds(), waited = 0.0;
    pool->busy_seconds += finished - start;
    while (atomic_load_explicit(&pool->done, memory_order_acquire) < chunks) {
        pause_briefly();
        waited = seconds() - finished;
        if (pool->wait_seconds + waited > WAIT_SECONDS + WAIT_SHARE * pool->busy_seconds) sched_yield();
    }
    pool->wait_seconds += waited;
    int late = pool->wait_seconds > WAIT_SECONDS + WAIT_SHARE * pool->busy_seconds;
    if (late || (pool->all_chunks > TRIAL_CHUNKS && pool->own_chunks > pool->all_chunks - pool->all_chunks / 7)) {
        pool->size = 1;
        atomic_store_explicit(&pool->stop, 1, memory_order_release);
    }
}

/* Pins a thread to a processor that is not the caller's, if there are several. */
static void pin_thread(pthread_t handle, int number) {
#if defined(__linux__)
    cpu_set_t all, one;
    int own = sched_getcpu(), seen = 0;
    if (own < 0 || sched_getaffinity(0, sizeof all, &all)) return;
    CPU_CLR(own, &all);
    int others = CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE && others; cpu++) {
        if (!CPU_ISSET(cpu, &all) || seen++ != (number - 1) % others) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(handle, sizeof one, &one);
        return;
    }
#else
    (void)handle, (void)number;
#endif
}

void pool_open(ThreadPool *pool, int size) {
    memset(pool, 0, sizeof *pool);
    pool->size = 1;
    for (int i = 1; i < size && i < MAX_THREADS; i++) {
        pool->threads[i] = (PoolThread){.pool = pool, .number = i};
        if (pthread_create(&pool->threads[i].handle, NULL, thread_main, &pool->threads[i])) break;
        pin_thread(pool->threads[i].handle, i);
        pool->started = pool->size = i + 1;
    }
}

void pool_close(ThreadPool *pool) {
    atomic_store_explicit(&pool->stop, 1, memory_order_release);
    for (int i = 1; i < pool->started; i++) pthread_join(pool->threads[i].handle, NULL);
}
