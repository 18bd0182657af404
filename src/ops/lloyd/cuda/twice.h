/* SPDX-License-Identifier: Apache-2.0
 * The update of FT K-Means (Wu and others, 2024), by duplication, for comparison with ours: sums,
 * sizes and weights of the clusters are kept twice, and must agree before centroids are made. */
#ifndef HF_LLOYD_CUDA_TWICE_H
#define HF_LLOYD_CUDA_TWICE_H

#include "ops/lloyd/cuda/lloyd_cuda.h"

struct hf_lloyd_twin {
    int64_t *sum, *count, *weight; /* as those of the job; weight may be NULL */
    int32_t *differ;               /* [1] 0 between steps */
    struct hf_slot *slot;          /* where findings are told, */
    uint32_t kernel;               /* by this number */
};

/* Bytes of memory; memory NULL: measure, else *twin gets its pointers. */
size_t hf_lloyd_twin_carve(const struct hf_lloyd_args *args, void *memory,
                           struct hf_lloyd_twin *twin);

/* Before the first step: the second sums are the first. */
hf_status hf_lloyd_twin_begin(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                              const struct hf_lloyd_twin *twin);

/* After the labels of a step: both sums follow them, and hf_lloyd_conclude() need not do it.
 * Where they differ both are made again from all rows. */
hf_status hf_lloyd_follow_twice(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                                const struct hf_lloyd_twin *twin, int side);

#endif
