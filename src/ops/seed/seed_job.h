/* SPDX-License-Identifier: Apache-2.0
 * What the parts of seed_simd.c share: the job, the memory of a worker, and loads of any data type.
 */
#ifndef HF_SEED_JOB_H
#define HF_SEED_JOB_H

#include "base/dtype.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "ops/chains.h"
#include "ops/reference.h"
#include "ops/seed/seed_tally.h"

#define GROUP 4 /* candidates of a tile */
#if VREGS == 32
#define TILE 6 /* rows of a tile: TILE * GROUP accumulators, TILE rows, one candidate */
#else
#define TILE 3
#endif
#define BATCH CHAIN_ROWS /* pairs evaluated side by side in float64 */

struct seed_job {
    const struct hf_seed_args *args;
    int64_t d, dp; /* features, and the same rounded up to VW */
    int64_t l, lp; /* candidates, and the same rounded up to GROUP */
    const char *x; /* the rows, row_bytes apart */
    int64_t row_bytes;
    int64_t strip;              /* rows converted at once, a multiple of TILE */
    double scale, slack, floor; /* of the filter, see seed_filter.h */
    float *shift;               /* [dp] of float32 filters, 0 behind d */
    double *shift64;            /* [dp] of float64 data */
    float *c;                   /* [lp, dp] candidates as the filter sees them */
    float *c_limit; /* [lp / GROUP, VW] what each adds to the limit, the GROUP values repeated */
    double *c_norm; /* [l] cosine: |c| of the reference */
    char *workers;
    size_t worker_bytes;
};

struct seed_worker {
    float *x;       /* [strip, dp] rows as the filter sees them */
    float *x_limit; /* [strip, GROUP] what each row adds to the limit, repeated */
    float *dots;    /* [strip, GROUP] */
    uint64_t *gain; /* [l] */
    int64_t pair_row[BATCH];
    int64_t pair_l[BATCH];
    int pairs;
    int32_t picked[HF_SEED_GRAIN]; /* rows of the range that may be brought nearer */
};

ALWAYS_INLINE const char *seed_row(const struct seed_job *job, int64_t i) {
    return job->x + i * job->row_bytes;
}

/* VW elements as float32; not for float64. */
ALWAYS_INLINE vf seed_load_vf(const void *row, hf_dtype dtype, int64_t j) {
    switch (dtype) {
    case HF_F16:
        return vf_from_f16((const uint16_t *)row + j);
    case HF_BF16:
        return vf_from_bf16((const uint16_t *)row + j);
    case HF_U8:
        return vf_from_u8((const uint8_t *)row + j);
    default:
        return vf_load((const float *)row + j);
    }
}

#endif
