/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/parallel.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define MAX_WORKERS 16

struct job {
    int64_t n, grain;
    int workers;
    unsigned char *times; /* [n] plain memory: two workers on one item are a race for TSan */
    atomic_int busy[MAX_WORKERS];
    int64_t done[MAX_WORKERS]; /* plain: owned by the worker of that number */
    atomic_int errors;
};

static void work(void *arg, int worker, int64_t begin, int64_t end) {
    struct job *job = arg;
    if (worker < 0 || worker >= job->workers || begin % job->grain != 0 || end <= begin ||
        end > job->n || end - begin > job->grain) {
        atomic_fetch_add(&job->errors, 1);
        return;
    }
    if (atomic_exchange(&job->busy[worker], 1) != 0)
        atomic_fetch_add(&job->errors, 1);
    for (int64_t i = begin; i < end; i++)
        job->times[i]++;
    job->done[worker] += end - begin;
    atomic_store(&job->busy[worker], 0);
}

static void check_loop(hf_pool *pool, int64_t n, int64_t grain) {
    struct job job = {.n = n, .grain = grain, .workers = hf_pool_workers(pool)};
    job.times = hf_alloc_zero((size_t)n);
    assert_non_null(job.times);
    hf_parallel_for(pool, n, grain, work, &job);
    assert_int_equal(atomic_load(&job.errors), 0);
    int64_t done = 0;
    for (int w = 0; w < MAX_WORKERS; w++)
        done += job.done[w];
    assert_int_equal(done, n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(job.times[i], 1);
    hf_free(job.times);
}

static void every_item_once(void **state) {
    (void)state;
    static const int workers[] = {1, 2, 3, 7, MAX_WORKERS};
    static const int64_t n[] = {0, 1, 2, 63, 64, 65, 1000, 4096, 4097};
    static const int64_t grain[] = {1, 7, 64, 1000, INT64_MAX};
    for (size_t w = 0; w <= sizeof workers / sizeof workers[0]; w++) {
        hf_pool *pool = w > 0 ? hf_pool_create(workers[w - 1]) : NULL;
        assert_int_equal(hf_pool_workers(pool), w > 0 ? workers[w - 1] : 1);
        for (size_t i = 0; i < sizeof n / sizeof n[0]; i++)
            for (size_t g = 0; g < sizeof grain / sizeof grain[0]; g++)
                check_loop(pool, n[i], grain[g]);
        hf_pool_destroy(pool);
    }
}

static void count_range(void *arg, int worker, int64_t begin, int64_t end) {
    (void)worker;
    _Atomic int64_t *sum = arg;
    atomic_fetch_add(&sum[0], end - begin);
    atomic_fetch_add(&sum[1], begin % ((int64_t)1 << 60) == 0);
}

/* Item numbers near the end of int64. */
static void huge_loops(void **state) {
    (void)state;
    hf_pool *pool = hf_pool_create(3);
    for (int p = 0; p < 2; p++) {
        _Atomic int64_t sum[2] = {0, 0};
        hf_parallel_for(p ? pool : NULL, INT64_MAX, (int64_t)1 << 60, count_range, sum);
        assert_true(atomic_load(&sum[0]) == INT64_MAX);
        assert_int_equal(atomic_load(&sum[1]), 8);
    }
    hf_pool_destroy(pool);
}

struct chain {
    int64_t *from, *to;
};

static void step(void *arg, int worker, int64_t begin, int64_t end) {
    (void)worker;
    const struct chain *chain = arg;
    for (int64_t i = begin; i < end; i++)
        chain->to[i] = chain->from[i] + 1;
}

/* What one loop wrote, the next one and the caller read; some loops find the workers asleep. */
static void loops_follow_each_other(void **state) {
    (void)state;
    enum { N = 64, LOOPS = 3000 };
    int64_t a[N] = {0}, b[N] = {0};
    hf_pool *pool = hf_pool_create(4);
    for (int64_t i = 0; i < LOOPS; i++) {
        struct chain chain = {i % 2 ? b : a, i % 2 ? a : b};
        hf_parallel_for(pool, N, 1 + i % 5, step, &chain);
        assert_int_equal(chain.to[i % N], i + 1);
        if (i % 100 == 0) {
            const struct timespec nap = {0, 300000};
            (void)nanosleep(&nap, NULL);
        }
    }
    for (int i = 0; i < N; i++)
        assert_int_equal(a[i], LOOPS);
    hf_pool_destroy(pool);
}

static void wait_for_all(void *arg, int worker, int64_t begin, int64_t end) {
    (void)worker;
    (void)begin;
    (void)end;
    atomic_int *here = arg;
    atomic_fetch_add(here, 1);
    const double until = hf_now_s() + 30.0;
    while (atomic_load(here) < 3 && hf_now_s() < until)
        (void)sched_yield();
}

/* Three ranges that each wait for the other two end only when three workers really run at once. */
static void workers_run_together(void **state) {
    (void)state;
    hf_pool *pool = hf_pool_create(3);
    for (int i = 0; i < 20; i++) {
        atomic_int here = 0;
        hf_parallel_for(pool, 3, 1, wait_for_all, &here);
        assert_int_equal(atomic_load(&here), 3);
    }
    hf_pool_destroy(pool);
}

static void come_and_go(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        hf_pool *pool = hf_pool_create(1 + i % 5);
        assert_non_null(pool);
        if (i % 2)
            check_loop(pool, 10, 1);
        hf_pool_destroy(pool);
    }
    hf_pool_destroy(NULL);
}

/* A worker that is left out gets nothing, the caller's too, and the last one cannot be. */
static void workers_are_left_out(void **state) {
    (void)state;
    hf_pool *pool = hf_pool_create(3);
    assert_non_null(pool);
    assert_false(hf_pool_exclude(pool, 3, true));
    assert_false(hf_pool_exclude(pool, -1, true));
    assert_false(hf_pool_exclude(NULL, 0, true));
    for (int out = 0; out < 3; out++) {
        assert_true(hf_pool_exclude(pool, out, true));
        for (int64_t n = 0; n <= 1000; n = 3 * n + 1) {
            struct job job = {.n = n, .grain = 7, .workers = 3};
            job.times = hf_alloc_zero((size_t)n + 1);
            assert_non_null(job.times);
            hf_parallel_for(pool, n, job.grain, work, &job);
            assert_int_equal(atomic_load(&job.errors), 0);
            assert_int_equal(job.done[out], 0);
            for (int64_t i = 0; i < n; i++)
                assert_int_equal(job.times[i], 1);
            hf_free(job.times);
        }
        check_loop(pool, 500, 3);
        assert_true(hf_pool_exclude(pool, out, false));
    }
    assert_true(hf_pool_exclude(pool, 0, true));
    assert_true(hf_pool_exclude(pool, 2, true));
    assert_false(hf_pool_exclude(pool, 1, true));
    check_loop(pool, 500, 3);
    hf_pool_destroy(pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once),
        cmocka_unit_test(huge_loops),
        cmocka_unit_test(loops_follow_each_other),
        cmocka_unit_test(workers_run_together),
        cmocka_unit_test(come_and_go),
        cmocka_unit_test(workers_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
