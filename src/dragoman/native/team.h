/* Threads that split one token of work, for a sentence that comes alone.

Work is cut into chunks, and whoever is free takes the next one. A member that the system has put to sleep takes none,
and nobody waits for it, unless it sleeps over a chunk. Where that costs much, others want the processor as well, and
the team is dissolved. Members spin between tokens of work, which follow each other within microseconds, and end with the call that
made them. Which member does a chunk never changes its numbers. */
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include "vectors.h"

#define MOST_MEMBERS 8
#define PATIENCE 5e-4 /* seconds that may be lost to waiting, beside a share of the time that was worked */
#define SHARE 0.3
#define TRIAL 64 /* chunks after which the others must have done at least a seventh */
#define IDLE 1000 /* pauses after which a member lets others have its processor */

typedef void (*Chunk)(void *work, int chunk, int member);

typedef struct Team Team;
typedef struct {
    Team *team;
    int number;
    pthread_t thread;
} Member;

struct Team {
    _Alignas(64) _Atomic uint64_t ticket; /* generation, chunks in all, next chunk: 16 + 24 + 24 bits */
    _Alignas(64) _Atomic int done;
    _Alignas(64) _Atomic int leave;
    Chunk chunk;
    void *work;
    int size, started;
    int mine, all; /* chunks */
    double worked, waited;
    Member members[MOST_MEMBERS];
};

#define CHUNKS_OF(ticket) ((int)((ticket) >> 24 & 0xffffff))
#define NEXT_OF(ticket) ((int)((ticket)&0xffffff))

static void member_begins(void);
static void member_ends(void);

ALWAYS void pause_briefly(void) {
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

/* Takes chunks until there are none. The ticket tells their number too, so that it cannot be of another generation. */
static int take_chunks(Team *t, int member) {
    for (int taken = 0;;) {
        uint64_t now = atomic_load_explicit(&t->ticket, memory_order_acquire);
        if (NEXT_OF(now) >= CHUNKS_OF(now)) return taken;
        if (!atomic_compare_exchange_weak_explicit(&t->ticket, &now, now + 1, memory_order_acq_rel, memory_order_relaxed))
            continue;
        t->chunk(t->work, NEXT_OF(now), member);
        atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
        taken++;
    }
}

static void *member_main(void *given) {
    Member *m = given;
    member_begins();
    for (int idle = 0; !atomic_load_explicit(&m->team->leave, memory_order_acquire); idle++) {
        if (take_chunks(m->team, m->number)) idle = 0;
        pause_briefly();
        if (idle > IDLE) sched_yield();
    }
    member_ends();
    return NULL;
}

/* Runs chunk(work, i, member) for every i < chunks; returns when all are done. */
static void together(Team *t, int chunks, Chunk chunk, void *work) {
    if (t->size <= 1 || chunks <= 1) {
        for (int i = 0; i < chunks; i++) chunk(work, i, 0);
        return;
    }
    uint64_t old = atomic_load_explicit(&t->ticket, memory_order_relaxed);
    t->chunk = chunk;
    t->work = work;
    atomic_store_explicit(&t->done, 0, memory_order_relaxed);
    atomic_store_explicit(&t->ticket, ((old >> 48) + 1) << 48 | (uint64_t)chunks << 24, memory_order_release);
    double begun = seconds();
    t->mine += take_chunks(t, 0);
    t->all += chunks;
    double finished = seconds(), waited = 0.0;
    t->worked += finished - begun;
    while (atomic_load_explicit(&t->done, memory_order_acquire) < chunks) {
        pause_briefly();
        waited = seconds() - finished;
        if (t->waited + waited > PATIENCE + SHARE * t->worked) sched_yield();
    }
    t->waited += waited;
    if (t->waited > PATIENCE + SHARE * t->worked || (t->all > TRIAL && t->mine > t->all - t->all / 7)) {
        t->size = 1;
        atomic_store_explicit(&t->leave, 1, memory_order_release);
    }
}

/* A processor for member i that is not the caller's, where there are several. */
static void keep_apart(pthread_t thread, int member) {
#if defined(__linux__)
    cpu_set_t all, one;
    int own = sched_getcpu(), seen = 0;
    if (own < 0 || sched_getaffinity(0, sizeof all, &all)) return;
    CPU_CLR(own, &all);
    int others = CPU_COUNT(&all);
    for (int cpu = 0; cpu < CPU_SETSIZE && others; cpu++) {
        if (!CPU_ISSET(cpu, &all) || seen++ != (member - 1) % others) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(thread, sizeof one, &one);
        return;
    }
#else
    (void)thread, (void)member;
#endif
}

static void team_open(Team *t, int size) {
    memset(t, 0, sizeof *t);
    t->size = 1;
    for (int i = 1; i < size && i < MOST_MEMBERS; i++) {
        t->members[i] = (Member){.team = t, .number = i};
        if (pthread_create(&t->members[i].thread, NULL, member_main, &t->members[i])) break;
        keep_apart(t->members[i].thread, i);
        t->started = t->size = i + 1;
    }
}

static void team_close(Team *t) {
    atomic_store_explicit(&t->leave, 1, memory_order_release);
    for (int i = 1; i < t->started; i++) pthread_join(t->members[i].thread, NULL);
}
