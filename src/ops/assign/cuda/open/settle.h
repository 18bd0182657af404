/* SPDX-License-Identifier: Apache-2.0
 * From scores to labels on a GPU: float64 decides the rows that the filter left open, then labels
 * are compared with the old ones. Kernels count on the device; nothing waits. */
#ifndef HF_ASSIGN_CUDA_SETTLE_H
#define HF_ASSIGN_CUDA_SETTLE_H

#include "ops/assign/cuda/assign_cuda.h"
#include "ops/assign/cuda/skip.h"
#include "ops/assign/cuda/filter.h"

#define HF_SETTLE_TILE 32    /* rows of a tile of the dense kernel */
#define HF_SETTLE_ITEMS 1024 /* blocks it is worth while to split few tiles into */

/* Workspace of the steps below, for all problems of a batch. */
struct hf_settle {
    struct hf_filter_open open;   /* [batch, n] rows that the filter left open */
    struct hf_filter_slots slots; /* [batch, open.part] their candidates */
    int32_t *late;                /* [batch] open rows that are left for later rounds */
    int32_t *unsure,
        *unsure_count;          /* [batch, open.part], [batch] and where differences leave rows */
    const int32_t *doubt;       /* [batch, open.part] entries of the open rows that are left, and */
    const int32_t *doubt_count; /* [batch] their number; NULL: all of them */
    int32_t
        *order; /* [open.part] entries by their rows' labels, where they are many; NULL: never */
    int32_t *order_count, *order_place; /* [k], the first zero when a step begins */
    int32_t *rest;                      /* [batch, n] rows that need all centroids */
    double *norm;                       /* [batch, k] |c|, cosine only */
    double *least;        /* [batch, parts] least distance of a row to a part of centroids */
    int32_t *least_arg;   /* [batch, parts] its centroid */
    int64_t items, parts; /* of a problem: HF_SETTLE_ITEMS, and rows times parts of them */
    int32_t *counters;    /* [n_counters] all zero when a step begins: open.count and */
    int64_t n_counters;
    struct hf_assign_counts *tally; /* [batch] */
    unsigned long long *moved;      /* [1] of all problems */
    int32_t *rest_count;            /* [batch] */
    int32_t *split;                 /* [batch, items] parts of a tile that are done */
    const int32_t *scored;          /* [batch] rows that needed scores; NULL: all did */
    const int32_t *scored_all;      /* [1] with scored; 0: all had theirs computed */
    struct hf_bounds bounds;        /* of the rows, with scored */
};

/* Lay it out from ws; returns the bytes. ws NULL measures. */
size_t hf_settle_carve(const struct hf_assign_problem *problem, void *ws, struct hf_settle *s);

/* |c| of all centroids (cosine; nothing else needs it). */
hf_status hf_settle_norms(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s);

/* Open rows of a problem whose candidates are listed together. */
int64_t hf_settle_part_rows(const struct hf_assign_problem *problem);

/* Labels of the open rows: hf_filter_emit(), hf_settle_differences() and hf_settle_pairs(). */
hf_status hf_settle_open(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s,
                         const struct hf_filter_rows *x, const struct hf_filter_centroids *c,
                         void *packed);

/* Is it worth while to compare open rows in the order of their labels, once there are as many? Then
 * s->order is set, and this fills it. */
#define HF_SETTLE_ORDER 65536
bool hf_settle_orders(const struct hf_assign_problem *problem);
hf_status hf_settle_order(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s);

/* Are differences of candidates an answer to what the filter left open? */
bool hf_settle_differs(const struct hf_assign_rows *rows);

/* Then they decide most of the rows whose candidates are in s->slots; s->doubt lists the rest. Rows
 * with too many candidates, or none, go to s->rest. */
hf_status hf_settle_differences(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                const struct hf_assign_step *step, struct hf_settle *s);

/* Float64 decides those that are left; rows with too many candidates, or none, go to s->rest. */
hf_status hf_settle_pairs(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s);

/* Labels of listed rows from the distances to all centroids. list [batch, n], NULL: 0, 1, 2, ...;
 * count [batch], NULL: n. */
hf_status hf_settle_dense(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s,
                          const int32_t *list, const int32_t *count);

/* Compare labels with the old ones; counters and the list of moved rows to the caller. dense_count:
 * the count that hf_settle_dense() got. */
hf_status hf_settle_compare(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                            const struct hf_assign_step *step, const struct hf_settle *s,
                            const int32_t *dense_count);

#endif
