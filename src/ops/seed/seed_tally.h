/* SPDX-License-Identifier: Apache-2.0
 * How the rows of seed hand over their results: integers and maxima only, so that neither order nor
 * threads matter. Included by the reference and by the SIMD source of each instruction set. */
#ifndef HF_SEED_TALLY_H
#define HF_SEED_TALLY_H

#include "base/compiler.h"
#include "ops/seed/seed.h"
#include <string.h>

#define HF_SEED_GRAIN 512 /* rows of one range of the parallel loop */

ALWAYS_INLINE double seed_weight(const struct hf_seed_args *a, int64_t i) {
    return a->weights ? a->weights[i] : 1;
}

ALWAYS_INLINE void seed_add(uint64_t *sum, uint64_t v) {
    if (v)
        __atomic_fetch_add(sum, v, __ATOMIC_RELAXED);
}

/* Candidate l is d from row i: keep it where that is nearer. gain is [l], of this worker. */
ALWAYS_INLINE void seed_offer(const struct hf_seed_args *a, int64_t i, int64_t l, double d,
                              uint64_t *gain) {
    const double v = a->metric == HF_COSINE && d < 0 ? 0 : d;
    const double nearest = a->nearest[i];
    if (!(v < nearest))
        return;
    if (a->commit) {
        a->nearest[i] = v;
        if (a->label)
            a->label[i] = a->first_label + (int32_t)l;
        return;
    }
    const double w = seed_weight(a, i);
    gain[l] +=
        hf_seed_quantum(nearest, w, a->unit, a->limit) - hf_seed_quantum(v, w, a->unit, a->limit);
    if (!a->pairs)
        return;
    const int64_t at = __atomic_fetch_add(a->pairs_count, 1, __ATOMIC_RELAXED);
    if (at < a->pairs_room)
        a->pairs[at] = (struct hf_seed_pair){a->first + i, v, (int32_t)l};
}

/* After a commit of rows [begin, end): their sums by block. */
ALWAYS_INLINE void seed_settle(const struct hf_seed_args *a, int64_t begin, int64_t end) {
    uint64_t sum = 0;
    for (int64_t i = begin; i < end && a->block; i++) {
        sum += hf_seed_quantum(a->nearest[i], seed_weight(a, i), a->unit, a->limit);
        const int64_t row = a->first + i;
        if (i + 1 < end && (row + 1) % HF_SEED_BLOCK != 0)
            continue;
        seed_add(a->block + row / HF_SEED_BLOCK, sum);
        sum = 0;
    }
}

#endif
