/* SPDX-License-Identifier: Apache-2.0
 * Rows that need no scores: an upper bound on the distance to a row's own centroid and a lower one
 * on all others, moved by how far the centroids went (Hamerly 2010; numerics.md). Euclidean metric,
 * tensor cores. */
#ifndef HF_ASSIGN_CUDA_SKIP_H
#define HF_ASSIGN_CUDA_SKIP_H

#include "ops/assign/assign_cuda.h"
#include "ops/assign/assign_filter.h"

/* Memory of a step with bounds, for all problems. */
struct hf_skip_cuda {
    float *drift_out;     /* [batch, k] at least how far each centroid moved, */
    const float *drift;   /* the same, or what the caller knows of it */
    float *best, *second; /* [batch, n] scores of rows that were looked at, and */
    float *error;         /* [batch, n] what they may be off */
    int32_t *list;        /* [batch, n] rows that need scores */
    int32_t *stop_all;    /* [1] not 0: the pass over all rows is not wanted */
    int32_t *stop_list;   /* [1] likewise that over the list */
    /* Zero when a step begins: */
    int32_t *counters; /* [batch + 2] */
    int32_t *count;    /* [batch] length of each list */
    int32_t *total;    /* [1] of all */
    int32_t *ticket;   /* [1] */
};

/* Lay it out from ws; returns the bytes. ws NULL measures. */
size_t hf_skip_carve(const struct hf_assign_problem *problem, void *ws, struct hf_skip_cuda *s);

/* Decide what the bounds decide: those rows keep their labels, the others are listed. Then one of
 * the two stops is 0, or none if the step is not wanted at all. */
hf_status hf_skip_scan(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                       const struct hf_assign_step *step, const struct hf_skip_cuda *s);

/* New bounds of the rows that were looked at. */
hf_status hf_skip_learn(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                        const struct hf_assign_step *step, const struct hf_skip_cuda *s);

#endif
