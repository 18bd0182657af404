/* SPDX-License-Identifier: Apache-2.0
 * The threshold of the row test (docs/numerics/guard.md). */
#ifndef HF_ASSIGN_GUARD_LIMIT_H
#define HF_ASSIGN_GUARD_LIMIT_H

#include "ops/assign/host/job.h"
#include <math.h>

/* A protected pass of the block's rows over a pack. */
struct guard_sweep {
    const struct job *job;
    struct worker *w;
    const struct pack *p;
    int collect; /* list candidates; else find the best two */
};

/* Sums of checksum q, of the rows from `slot` on. */
ALWAYS_INLINE float *guard_z(const struct worker *w, int64_t q, int slot) {
    return w->guard.z + q * w->block.capacity + slot;
}

/* More than the length of a row whose squares underflow. */
#define GUARD_SHORT_ROW 0x1p-58f

/* job_reach() of the centroids that are in checksums. */
ALWAYS_INLINE vf guard_reach(const struct job *job, vf norm) {
    const float cmax = job->guard.cmax;
    const float half = job->a->metric == HF_EUCLIDEAN ? 0.5f : 0;
    return vf_fma(vf_max(norm, vf_set1(GUARD_SHORT_ROW)), vf_set1(cmax),
                  vf_set1(cmax * cmax * half));
}

/* The threshold of the row test for VW rows. */
ALWAYS_INLINE vf guard_threshold(const struct job *job, const struct block *b, int slot,
                                 float kappa) {
    const vf q = vf_mul(vf_load(b->norm2 + slot), vf_set1(1 + job->bound.qerr));
    const vf norm = vf_mul(vf_sqrt(q), vf_set1(1 + 0x1p-10f));
    return vf_fma(vf_set1(kappa), guard_reach(job, norm), vf_set1(job->bound.eta));
}

/* |z| <= t; NaN is not: max() would drop a NaN of one side. */
ALWAYS_INLINE uint32_t guard_within(vf z, vf t) {
    return vm_bits(vf_le(vf_max(z, vf_sub(vf_set1(0), z)), t)) & vm_bits(vf_le(z, t));
}

/* No rounding of a sum of the scores of a pack is as large as this, by guard_threshold(); dot:
 * tile_dot_error(). */
static inline float guard_kappa_impossible(double columns, double dot) {
    return (float)(2.2 * columns * (dot * 0x1p24 + 16) * 0x1p-24);
}

#endif
