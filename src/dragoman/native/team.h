/* Threads that split one piece of work, for a sentence that comes alone.

Work is cut into chunks, and whoever is free takes the next one. A member that the system has put to sleep takes none,
and nobody waits for it. Members spin between pieces of work, which follow each other within microseconds, and end with
the call that made them. Which member does a chunk never changes its numbers. */
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "vectors.h"

#define MOST_MEMBERS 8

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
    int size;
    Member members[MOST_MEMBERS];
};

#define CHUNKS_OF(ticket) ((int)((ticket) >> 24 & 0xffffff))
#define NEXT_OF(ticket) ((int)((ticket)&0xffffff))

static void member_begins(void);
static void member_ends(void);

ALWAYS void pause_briefly(void) {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

/* Takes chunks until there are none. The ticket tells their number too, so that it cannot be of another generation. */
static void take_chunks(Team *t, int member) {
    for (;;) {
        uint64_t now = atomic_load_explicit(&t->ticket, memory_order_acquire);
        if (NEXT_OF(now) >= CHUNKS_OF(now)) return;
        if (!atomic_compare_exchange_weak_explicit(&t->ticket, &now, now + 1, memory_order_acq_rel, memory_order_relaxed))
            continue;
        t->chunk(t->work, NEXT_OF(now), member);
        atomic_fetch_add_explicit(&t->done, 1, memory_order_release);
    }
}

static void *member_main(void *given) {
    Member *m = given;
    member_begins();
    while (!atomic_load_explicit(&m->team->leave, memory_order_acquire)) {
        take_chunks(m->team, m->number);
        pause_briefly();
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
    take_chunks(t, 0);
    while (atomic_load_explicit(&t->done, memory_order_acquire) < chunks) pause_briefly();
}

static void team_open(Team *t, int size) {
    memset(t, 0, sizeof *t);
    t->size = 1;
    for (int i = 1; i < size && i < MOST_MEMBERS; i++) {
        t->members[i] = (Member){.team = t, .number = i};
        if (pthread_create(&t->members[i].thread, NULL, member_main, &t->members[i])) break;
        t->size = i + 1;
    }
}

static void team_close(Team *t) {
    atomic_store_explicit(&t->leave, 1, memory_order_release);
    for (int i = 1; i < t->size; i++) pthread_join(t->members[i].thread, NULL);
}
