/* SPDX-License-Identifier: Apache-2.0
 * Rows that need no scores: an upper bound on the distance to a row's own centroid and a lower one
 * on all others, moved by how far the centroids went (Hamerly 2010;
 * docs/numerics/bounds.md). Euclidean metric, tensor cores. */
#ifndef HF_ASSIGN_CUDA_SKIP_H
#define HF_ASSIGN_CUDA_SKIP_H

#include "ops/assign/cuda/assign_cuda.h"
#include "ops/assign/cuda/filter.h"

/* The bounds of the rows, and what they are learnt from. */
struct hf_bounds {
    float *upper, *lower;                /* [batch, n] NULL: none are kept */
    const float *best, *second;          /* [batch, n] scores of rows that were looked at, and */
    const float *error;                  /* [batch, n] what they may be off */
    const float *norm, *loss;            /* [batch, n] of the prepared rows; loss NULL: 0 */
    double unit;                         /* what distances of x' are multiplied by */
    int64_t d;                           /* columns */
    const struct hf_assign_guide *guide; /* NULL: all are wanted */
};

#define HF_DRIFT_BINS 32

/* The largest drifts of the centroids round each centroid (cuda/drifts.cuh). */
struct hf_drifts {
    int32_t
        *most;   /* [batch, k, HF_DRIFT_BINS] bits of those in a bin and before; NULL: not known */
    int32_t key; /* the exponent that the bins begin at */
};

/* Memory of a step with bounds, for all problems. */
struct hf_skip_cuda {
    float *best, *second; /* [batch, n] scores of rows that were looked at, and */
    float *error;         /* [batch, n] what they may be off */
    int32_t *list;        /* [batch, n] rows that need scores */
    int32_t *stop_all;    /* [1] not 0: the pass over all rows is not wanted */
    int32_t *stop_list;   /* [1] likewise that over the list */
    /* Zero when a step begins: */
    int32_t *counters; /* [batch + 3] */
    int32_t *count;    /* [batch] length of each list */
    int32_t *total;    /* [1] of all */
    int32_t *measured; /* [1] own distances */
    int32_t *ticket;   /* [1] */
    struct hf_drifts drifts;
    size_t cleared_bytes; /* of all these */
};

/* Lay it out from ws; returns the bytes. ws NULL measures. */
size_t hf_skip_carve(const struct hf_assign_problem *problem, void *ws, struct hf_skip_cuda *s);

/* Decide what the bounds decide: those rows keep their labels, the others are listed. Then one of
 * the two stops is 0, or none if the step is not wanted at all. */
hf_status hf_skip_scan(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                       const struct hf_assign_step *step, const struct hf_skip_cuda *s);

/* drifts->most, which is 0 before. */
hf_status hf_drifts_collect(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                            const struct hf_assign_step *step, const struct hf_drifts *drifts);

/* Where the bounds of a step go. */
struct hf_bounds hf_skip_bounds(const struct hf_assign_rows *rows,
                                const struct hf_assign_step *step, const struct hf_skip_cuda *s);

/* New bounds of the rows that were looked at. Rows that float64 decides get better ones then. */
hf_status hf_skip_learn(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                        const struct hf_assign_step *step, const struct hf_skip_cuda *s);

#endif
