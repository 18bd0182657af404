/* SPDX-License-Identifier: Apache-2.0
 * A loop is a number in pool->open (0: none). A worker joins by counting itself in `active` and
 * then looking at `open` again; the caller closes the loop and waits until nobody is in it. So a
 * worker that the system has put to sleep never holds up a loop it did not join, and the fields of
 * a loop change only while it is closed and empty. Both "write mine, then read yours" pairs need
 * sequential consistency: active/open here, sleepers/open and caller_waits/active for the condition
 * variables. Whoever waits looks for news before it sleeps, always as long: being woken can take so
 * long that a worker which then looked less long would sleep again before each of many short loops.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/parallel.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SPIN_S 20e-6     /* about what it costs to sleep and be woken */
#define PATIENT_S 200e-6 /* where each worker has a core: the next loop mostly follows closely */
#define SPIN_STEPS 64    /* pauses between two looks at the clock */

struct worker {
    hf_pool *pool;
    pthread_t thread;
    int number;
    bool excluded;
};

struct hf_pool {
    int workers;
    double patience; /* PATIENT_S; more workers than cores would wait at each other's cost */
    /* the loop; constant while open */
    hf_range_fn *fn;
    void *job;
    int64_t n, grain, ranges;
    int64_t last;                              /* number of the last loop */
    _Alignas(HF_ALIGN) _Atomic int64_t ticket; /* next range to hand out */
    _Alignas(HF_ALIGN) _Atomic int64_t open;   /* number of the loop that may be joined, 0: none */
    _Atomic int active; /* workers in the loop, or about to see that it is closed */
    _Atomic int sleepers;
    _Atomic int caller_waits;
    _Atomic bool quit;
    pthread_mutex_t mutex;
    pthread_cond_t wake, done;
    struct worker worker[]; /* [workers]; the caller is number 0 and has no thread */
};

static void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void run_ranges(hf_pool *pool, int number) {
    while (!pool->worker[number].excluded) {
        const int64_t i = atomic_fetch_add_explicit(&pool->ticket, 1, memory_order_relaxed);
        if (i >= pool->ranges)
            return;
        const int64_t begin = i * pool->grain;
        const int64_t left = pool->n - begin;
        pool->fn(pool->job, number, begin, begin + (left < pool->grain ? left : pool->grain));
    }
}

static bool has_news(hf_pool *pool, int64_t seen) {
    const int64_t open = atomic_load(&pool->open);
    return (open != 0 && open != seen) || atomic_load(&pool->quit);
}

/* Shall a thread that waits since `begin` look on? After a while it lets others go first: the
 * system may have put the one that it waits for on the same core. */
static bool goes_on(const hf_pool *pool, double begin) {
    const double waited = hf_now_s() - begin;
    if (waited > SPIN_S)
        (void)sched_yield();
    return waited < pool->patience;
}

static void await_news(hf_pool *pool, int64_t seen) {
    const double begin = hf_now_s();
    do {
        for (int i = 0; i < SPIN_STEPS; i++) {
            if (has_news(pool, seen))
                return;
            cpu_pause();
        }
    } while (goes_on(pool, begin));
    (void)pthread_mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    while (!has_news(pool, seen))
        (void)pthread_cond_wait(&pool->wake, &pool->mutex);
    atomic_fetch_sub(&pool->sleepers, 1);
    (void)pthread_mutex_unlock(&pool->mutex);
}

static void leave(hf_pool *pool) {
    if (atomic_fetch_sub(&pool->active, 1) != 1 || atomic_load(&pool->caller_waits) == 0)
        return;
    (void)pthread_mutex_lock(&pool->mutex);
    (void)pthread_cond_signal(&pool->done);
    (void)pthread_mutex_unlock(&pool->mutex);
}

static void *worker_main(void *arg) {
    const struct worker *self = arg;
    hf_pool *pool = self->pool;
    int64_t seen = 0;
    while (!atomic_load(&pool->quit)) {
        await_news(pool, seen);
        atomic_fetch_add(&pool->active, 1);
        const int64_t open = atomic_load(&pool->open);
        if (open != 0 && open != seen) {
            seen = open;
            run_ranges(pool, self->number);
        }
        leave(pool);
    }
    return NULL;
}

static void await_empty(hf_pool *pool) {
    const double begin = hf_now_s();
    do {
        for (int i = 0; i < SPIN_STEPS; i++) {
            if (atomic_load(&pool->active) == 0)
                return;
            cpu_pause();
        }
    } while (goes_on(pool, begin));
    (void)pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_waits, 1);
    while (atomic_load(&pool->active) != 0)
        (void)pthread_cond_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->caller_waits, 0);
    (void)pthread_mutex_unlock(&pool->mutex);
}

static void run_inline(int64_t n, int64_t grain, hf_range_fn *fn, void *job) {
    for (int64_t begin = 0; begin < n;) {
        const int64_t end = n - begin < grain ? n : begin + grain;
        fn(job, 0, begin, end);
        begin = end;
    }
}

/* A caller that takes no ranges waits until others have taken them all. */
static void await_ranges(hf_pool *pool) {
    while (atomic_load(&pool->ticket) < pool->ranges)
        (void)sched_yield();
}

int hf_pool_left(const hf_pool *pool) {
    int left = 0;
    for (int i = 0; pool != NULL && i < pool->workers; i++)
        left += !pool->worker[i].excluded;
    return pool != NULL ? left : 1;
}

bool hf_pool_exclude(hf_pool *pool, int worker, bool excluded) {
    if (pool == NULL || worker < 0 || worker >= pool->workers)
        return false;
    if (excluded && hf_pool_left(pool) - !pool->worker[worker].excluded == 0)
        return false;
    pool->worker[worker].excluded = excluded;
    return true;
}

void hf_parallel_for(hf_pool *pool, int64_t n, int64_t grain, hf_range_fn *fn, void *job) {
    assert(grain > 0);
    if (n <= 0)
        return;
    if (pool == NULL || pool->workers == 1 || (n <= grain && !pool->worker[0].excluded)) {
        run_inline(n, grain, fn, job);
        return;
    }
    assert(atomic_load(&pool->open) == 0);
    pool->fn = fn;
    pool->job = job;
    pool->n = n;
    pool->grain = grain;
    pool->ranges = (n - 1) / grain + 1;
    pool->last++;
    atomic_store_explicit(&pool->ticket, 0, memory_order_relaxed);
    atomic_store(&pool->open, pool->last);
    if (atomic_load(&pool->sleepers) > 0) {
        (void)pthread_mutex_lock(&pool->mutex);
        (void)pthread_cond_broadcast(&pool->wake);
        (void)pthread_mutex_unlock(&pool->mutex);
    }
    run_ranges(pool, 0);
    if (pool->worker[0].excluded)
        await_ranges(pool);
    atomic_store(&pool->open, 0);
    await_empty(pool);
}

/* Signals are for the application's own threads. */
static bool start_threads(hf_pool *pool, int *started) {
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    int i = 1;
    for (; i < pool->workers; i++) {
        struct worker *w = &pool->worker[i];
        w->pool = pool;
        w->number = i;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
            break;
    }
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    *started = i;
    return i == pool->workers;
}

static void stop_threads(hf_pool *pool, int started) {
    (void)pthread_mutex_lock(&pool->mutex);
    atomic_store(&pool->quit, true);
    (void)pthread_cond_broadcast(&pool->wake);
    (void)pthread_mutex_unlock(&pool->mutex);
    for (int i = 1; i < started; i++)
        (void)pthread_join(pool->worker[i].thread, NULL);
    (void)pthread_cond_destroy(&pool->done);
    (void)pthread_cond_destroy(&pool->wake);
    (void)pthread_mutex_destroy(&pool->mutex);
    hf_free(pool);
}

hf_pool *hf_pool_create(int workers) {
    assert(workers > 0);
    hf_pool *pool = hf_alloc_zero(sizeof *pool + (size_t)workers * sizeof pool->worker[0]);
    if (pool == NULL)
        return NULL;
    pool->workers = workers;
    pool->patience = workers <= hf_usable_cores() ? PATIENT_S : SPIN_S;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    (void)pthread_cond_init(&pool->wake, NULL);
    (void)pthread_cond_init(&pool->done, NULL);
    int started = 0;
    if (!start_threads(pool, &started)) {
        stop_threads(pool, started);
        return NULL;
    }
    return pool;
}

void hf_pool_destroy(hf_pool *pool) {
    if (pool != NULL)
        stop_threads(pool, pool->workers);
}

int hf_pool_workers(const hf_pool *pool) { return pool != NULL ? pool->workers : 1; }

/* Cores of the affinity mask; machines may have more than a cpu_set_t holds. */
static int affinity_cores(void) {
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (set == NULL)
            return 1;
        const size_t bytes = CPU_ALLOC_SIZE(cpus);
        CPU_ZERO_S(bytes, set);
        const bool told = sched_getaffinity(0, bytes, set) == 0;
        const int count = told ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (told)
            return count > 0 ? count : 1;
    }
    return 1;
}

int hf_usable_cores(void) {
    const int cores = affinity_cores();
    const uint64_t group = hf_cgroup_cores();
    return group < (uint64_t)cores ? (int)group : cores;
}
