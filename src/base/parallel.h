/* SPDX-License-Identifier: Apache-2.0
 * The one parallel-for. A pool of threads that sleep between loops; results never depend on which
 * worker got which range. */
#ifndef HF_PARALLEL_H
#define HF_PARALLEL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct hf_pool hf_pool;

/* Work on items [begin, end); worker is 0 .. workers - 1, no two at once with the same number. */
typedef void hf_range_fn(void *job, int worker, int64_t begin, int64_t end);

/* A pool of `workers` workers, the calling thread included. NULL when no thread can be started. */
hf_pool *hf_pool_create(int workers);
void hf_pool_destroy(hf_pool *pool);
int hf_pool_workers(const hf_pool *pool); /* pool NULL: 1 */

/* Give a worker no ranges any more, or again: one that computes wrongly. Between loops. False, and
 * nothing is done: it would be the last one, or there is no such worker. pool may be NULL. */
bool hf_pool_exclude(hf_pool *pool, int worker, bool excluded);
int hf_pool_left(const hf_pool *pool); /* workers that are given ranges; pool NULL: 1 */

/* Call fn over [0, n) in ranges of at most `grain` items that start at multiples of grain; return
 * when all are done. pool NULL runs everything on the caller. Not to be nested on one pool. */
void hf_parallel_for(hf_pool *pool, int64_t n, int64_t grain, hf_range_fn *fn, void *job);

/* Cores this process may run on (affinity and control group quota). */
int hf_usable_cores(void);

#endif
