/* SPDX-License-Identifier: Apache-2.0
 * The kernels of seed.cl, for seed and for what greedy and spread do with potentials. All pointers
 * are the device's. */
#ifndef HF_SEED_LAUNCH_H
#define HF_SEED_LAUNCH_H

#include "ops/opencl.h"
#include "ops/seed/seed.h"

/* seed, with the candidates packed. */
hf_status hf_seed_launch(const struct hf_call *call, const struct hf_seed_args *a,
                         const struct hf_opencl_panels *panels);

/* The potentials of n rows. */
struct hf_potentials {
    int64_t n;
    const double *nearest, *weights; /* [n]; weights may be NULL */
    double unit, limit;
    uint64_t *sum; /* [blocks] out: of each HF_SEED_BLOCK rows */
    double *most;  /* [blocks] out: the largest weight * nearest of them */
};

static inline int64_t hf_potential_blocks(int64_t n) {
    return (n + HF_SEED_BLOCK - 1) / HF_SEED_BLOCK;
}

/* Sum and maximum of all blocks, brought to the host. */
hf_status hf_potentials_add(const struct hf_call *call, const struct hf_potentials *p,
                            uint64_t *total, double *most);

/* hf_seed_scale_of(), given the largest weight * nearest. */
double hf_potentials_unit(int64_t n, double most);

#endif
