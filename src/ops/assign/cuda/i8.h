/* SPDX-License-Identifier: Apache-2.0
 * A filter before the filter, for rows of u8 on Hopper: rows as they lie, centroids rounded to
 * whole steps, products exact in int32 at twice the rate of 16 bits.
 *
 *   q_j = 127.5 + step * i_j,  i_j in -127 .. 127,  step = 255 / 254,  eps = max |c_j - q_j|
 *
 * |x - q_j| is known but for a rounding of 0.5 in its square's half, and differs from |x - c_j| by
 * |c_j - q_j|, at most eps. So a centroid with |x - q_j| > |x - q_b| + |c_b - q_b| + eps is not
 * nearer than b: rows with no other centroid within that are decided, the rest is listed for the
 * filter in 16 bits.
 *
 * Where too much is listed, the filter looks at all rows instead, and steps to come leave this one
 * out for a while. All pointers are device memory; everything is queued. */
#ifndef HF_ASSIGN_I8_H
#define HF_ASSIGN_I8_H

#include "ops/assign/cuda/assign_cuda.h"
#include "ops/assign/cuda/filter.h"

enum {
    HF_I8_SLAB = 128, /* columns of a slab */
    HF_I8_SLABS = 7,  /* most: rows stay in shared memory */
    HF_I8_TILE = 256  /* centroids of a tile */
};

/* What lasts from step to step. */
struct hf_i8_state {
    int32_t count;     /* rows listed */
    int32_t stop;      /* this filter does nothing */
    int32_t stop_all;  /* the next filter does not look at all rows, */
    int32_t stop_list; /* at those listed */
    int32_t rest;      /* steps that leave this filter out */
    int32_t penalty;   /* as many the next time */
};

/* Rows as it wants them: of hf_assign_rows. */
struct hf_i8_rows {
    const uint8_t *x; /* [n, ld], ld a multiple of 16 */
    int64_t ld;
    const int32_t *fact; /* [n] sum of x^2 - 255 x */
    struct hf_i8_state *state;
};

/* Workspace of a step. */
struct hf_i8_memory {
    uint8_t *tiles;
    float *eps; /* [tiles * HF_I8_TILE] of each centroid, rounded up */
    float *parts;
    int *counters;
    int32_t *list;    /* [n] rows it did not decide */
    float *threshold; /* [n] not looked at */
};

/* Can it take the problem? */
bool hf_i8_supports(const struct hf_assign_problem *problem);

/* Is memory set aside for it? And, now that the rows are where they will be looked at, is it
 * used? */
bool hf_i8_wanted(const struct hf_assign_problem *problem);
bool hf_i8_chosen(const struct hf_cuda *cuda, const struct hf_assign_problem *problem);

/* Lay out what lasts with the rows; memory NULL measures. Returns the bytes. */
size_t hf_i8_rows_carve(const struct hf_assign_problem *problem, void *memory,
                        struct hf_i8_rows *rows);
size_t hf_i8_carve(const struct hf_assign_problem *problem, void *ws, struct hf_i8_memory *m);

hf_status hf_i8_prepare(struct hf_cuda *cuda, const struct hf_assign_problem *problem,
                        const struct hf_i8_rows *rows);

/* Labels of the rows that it decides, a list of the others; then rows->state->stop_all and
 * stop_list say which of the two ways the next filter goes. */
hf_status hf_i8_top2(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                     const struct hf_assign_step *step, const struct hf_i8_rows *i8,
                     const struct hf_i8_memory *m);

/* The kernel (sm90/i8.cu). a.rows.x16 is u8, a.rows.norm the facts, a.rows.loss the
 * centroids' eps. */
struct filter_args;
cudaError_t hf_i8_launch(const struct hf_cuda *cuda, const struct filter_args *args);

#endif
