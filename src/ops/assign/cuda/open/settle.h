/* SPDX-License-Identifier: Apache-2.0
 * From scores to labels on a GPU: float64 decides the rows that the filter left open, then labels
 * are compared with the old ones. Kernels count on the device; nothing waits. */
#ifndef HF_ASSIGN_CUDA_SETTLE_H
#define HF_ASSIGN_CUDA_SETTLE_H

#include "core/array.h"
#include "ops/assign/cuda/assign_cuda.h"
#include "ops/assign/cuda/skip.h"
#include "ops/assign/cuda/filter.h"

#define HF_SETTLE_TILE 32      /* rows of a tile of the dense kernel, */
#define HF_SETTLE_CENTROIDS 64 /* and centroids */
#define HF_SETTLE_ITEMS 1024   /* blocks it is worth while to split few tiles into */

#define HF_SETTLE_ALL (-1) /* in the place of a count: all open rows, without a list */

#define HF_TILES_D 65536 /* most columns of tiles (tile.cuh): errors of sums stay small */

#define HF_NEIGHBORS 256     /* centroids that are listed for each, at most, */
#define HF_NEIGHBORS_STEP 32 /* and looked at together */
#define HF_NEIGHBORS_STEPS (HF_NEIGHBORS / HF_NEIGHBORS_STEP)
#define HF_NEIGHBORS_ROWS 128 /* rows of a label that are looked at together */
#define HF_NEIGHBORS_K 4096   /* most centroids */

/* Phases (device/cuda/phase.cuh) of the launch for neighbours come first. */
enum { HF_PHASE_COUNT, HF_PHASE_PLACE, HF_PHASE_LIST, HF_PHASE_LISTED, HF_PHASES };

/* Open rows in the order of their labels so far, and the neighbours of these centroids. */
struct hf_neighbors {
    int32_t *row;     /* [n] NULL: never wanted */
    float *threshold; /* [n] of these rows */
    int32_t *place;   /* [k] where the rows of a label end */
    int32_t *tile;    /* [k + 1] tiles of rows before those of a label; the last: all, 0: none */
    void *square;     /* [k, k] squared distances of centroids, float32 or of their type */
    uint16_t *list;   /* [k, HF_NEIGHBORS] by distance, a centroid itself first */
    double *edge; /* [k, HF_NEIGHBORS_STEPS + 1] centroids from that step on are at least so far */
};

/* Workspace of the steps below, for all problems of a batch. */
struct hf_settle {
    struct hf_filter_open open;     /* [batch, n] rows that the filter left open */
    struct hf_filter_slots slots;   /* [batch, n] their candidates */
    int32_t *unsure, *unsure_count; /* [batch, n], [batch] and where differences leave rows */
    const int32_t *doubt;           /* [batch, n] entries of the open rows that are left, and */
    const int32_t *doubt_count;     /* [batch] their number; NULL: all of them */
    struct hf_neighbors neighbors;  /* in the memory of the slots, which are written later */
    int32_t *order_count;           /* [k] open rows of each label; zero when a step begins, */
    struct hf_phase *phases;        /* [HF_PHASES] of launches, too */
    int32_t *left_count;            /* [1] open rows that neighbours did not decide */
    int32_t *rest;                  /* [batch, n] rows that need all centroids, */
    int32_t *last_count;            /* [batch] and of them those that differences do not decide */
    double *norm;                   /* [batch, k] |c|, cosine only */
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

/* What each kernel that decides open rows gets. */
struct hf_settle_job {
    const void *x; /* [batch, n, d], rows stride elements apart */
    const void *c; /* [batch, k, d] */
    int64_t n, k, d, stride, batch;
    int32_t *labels; /* [batch, n] */
    struct hf_settle s;
    const int32_t *stop; /* NULL, or: nothing is done if *stop != 0 */
};

static inline struct hf_settle_job hf_settle_job_of(const struct hf_assign_rows *rows,
                                                    const struct hf_assign_step *step,
                                                    const struct hf_settle *s) {
    const struct hf_assign_problem *p = &rows->problem;
    struct hf_settle_job job = {};
    job.x = p->x.data;
    job.c = step->c;
    job.n = rows->n;
    job.k = p->k;
    job.d = p->x.cols;
    job.stride = hf_array_stride(&p->x);
    job.batch = p->batch;
    job.labels = step->labels;
    job.s = *s;
    job.stop = step->stop;
    return job;
}

/* Lay it out from ws; returns the bytes. ws NULL measures. */
size_t hf_settle_carve(const struct hf_assign_problem *problem, void *ws, struct hf_settle *s);

/* |c| of all centroids (cosine; nothing else needs it). */
hf_status hf_settle_norms(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s);

/* Labels of the open rows: hf_filter_emit(), hf_settle_differences() and hf_settle_pairs().
 * filter: the call that left them open. */
hf_status hf_settle_open(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s,
                         const struct hf_filter_call *filter);

/* Can neighbours decide rows, and is there room for them? Then they are laid out from ws. */
bool hf_neighbors_carve(const struct hf_assign_problem *problem, void *ws, size_t room,
                        struct hf_neighbors *neighbors);

/* Labels of the open rows that differences to the neighbours of their label so far decide, where
 * many rows are open and the problem is hard. The others are the open rows of *s from then on. */
hf_status hf_settle_by_neighbors(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                 const struct hf_assign_step *step, struct hf_settle *s);

/* Differences decide most of the rows whose candidates are in s->slots, where they are an answer
 * and rows are many; s->doubt lists the rest. Rows
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

/* Labels of the rows of s->rest; those that float64 must decide are *count then. */
hf_status hf_settle_rest(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s,
                         const int32_t **count);

/* Compare labels with the old ones; counters and the list of moved rows to the caller. dense_count:
 * the count of hf_settle_dense() or hf_settle_rest(). */
hf_status hf_settle_compare(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                            const struct hf_assign_step *step, const struct hf_settle *s,
                            const int32_t *dense_count);

#endif
