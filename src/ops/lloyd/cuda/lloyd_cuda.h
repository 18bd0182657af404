/* SPDX-License-Identifier: Apache-2.0
 * The end of an iteration on the device: sums, centroids, shift, inertia, and whether to stop. */
#ifndef HF_LLOYD_CUDA_H
#define HF_LLOYD_CUDA_H

#include "ops/assign/cuda/assign_cuda.h"
#include "ops/lloyd/lloyd.h"
#include "ops/update/update_cuda.h"

/* What steers a run. */
struct hf_lloyd_control {
    int32_t halt;                /* every problem has ended: kernels return at once */
    int32_t running;             /* problems that go on */
    int32_t steps;               /* made: the labels are in labels[steps % 2] */
    int32_t moves;               /* the centroids are in centers[moves % 2] */
    int32_t moved;               /* rows in the list of those whose label changed */
    struct hf_lloyd_state state; /* of the first problem */
    hf_kmeans_iteration last;    /* and its last iteration */
};

/* Device memory; side is the number of the step modulo 2. */
struct hf_lloyd_job {
    struct hf_update_job update;
    struct hf_center_rule rule;
    bool exact, settle;
    hf_empty empty;
    int first, count;
    const double *tol, *total_square, *slack; /* [batch] */
    int32_t *labels[2];                       /* [batch * n] of labels[side] into the other */
    void *centers[2];                         /* [batch, k, d] likewise */
    const int32_t *moved;                     /* [control->moved] rows */
    struct hf_assign_counts *counts;          /* [batch] of this step's labels */
    double *inertia, *shift;                  /* [batch * k] parts of clusters */
    float *drift;                             /* [batch * k] see hf_assign_step, or NULL */
    struct hf_lloyd_tally *tally;             /* [batch] 0 between steps */
    struct hf_lloyd_state *state;             /* [batch] */
    hf_kmeans_iteration *history;             /* [batch, count] */
    struct hf_lloyd_control *control;
    int32_t *unit;              /* [batch] of hf_lloyd_args, or NULL */
    const struct hf_slot *slot; /* what it has ends a run */
};

#define HF_LLOYD_FEW_VALUES                                                                        \
    (1 << 22)               /* as long as so few values move, they are added one by one; */
#define HF_LLOYD_FEW_ROWS 3 /* as well as so many rows for each cluster */

/* Shall `moved` rows be added one by one? */
static __host__ __device__ inline bool hf_lloyd_few(const struct hf_update_job *u, int64_t moved) {
    return moved <= HF_LLOYD_FEW_VALUES / (u->d * u->limbs) + HF_LLOYD_FEW_ROWS * u->batch * u->k;
}

/* After the labels of a step: one launch. */
hf_status hf_lloyd_conclude(struct hf_cuda *cuda, const struct hf_lloyd_job *job, int side);

#endif
