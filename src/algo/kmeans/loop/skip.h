/* SPDX-License-Identifier: Apache-2.0
 * Bounds that let the assignment pass over rows (G. Hamerly: Making k-means even faster; SDM 2010).
 * Here is what belongs to the loop: how far each centroid moved, how far it is from the others, and
 * whether it pays. What is done with it stands in ops/assign/assign.h. */
#ifndef HF_SKIP_H
#define HF_SKIP_H

#include "base/mem.h"
#include "ops/assign/assign.h"

struct hf_fit;

#define HF_PROBE_ROWS 512 /* measure whether bounds would pay */

struct hf_skip {
    bool allocated;                /* there is memory for bounds */
    bool begin;                    /* no assignment was made yet */
    bool trusted;                  /* bounds are thought to pay */
    bool paid;                     /* HF_SKIP_AUTO: they did when rows were skipped last */
    bool have;                     /* they hold for the centroids of the last assignment */
    int rest;                      /* HF_SKIP_AUTO: iterations to come without skipping rows */
    int penalty;                   /* how many after the next failure: 1, 2, 4, 8 */
    int sweep_rest, sweep_penalty; /* the same of sweeps */
    struct hf_assign_bounds bounds;
    uint32_t sum;                     /* bounds.sum */
    _Atomic bool differs;             /* a drift came out twice differently */
    bool probed;                      /* there are bounds */
    float *probe_upper, *probe_lower; /* of HF_PROBE_ROWS rows from all over the data, */
    int32_t *probe_labels;            /* with labels of their own */
    double *square;                   /* [k] of the move of each centroid, */
    bool square_known;                /* if that is known already */
    float *drift, *half;              /* [k] */
    int32_t *moved;                   /* [k] */
    int32_t *labels;                  /* [k] scratch: centroids assigned to themselves */
    float *upper, *lower;             /* [k] scratch, likewise */
};

/* Take the arrays of length k. */
void hf_skip_carve(struct hf_skip *skip, hf_carve *carve, int64_t k);

/* Forget all: a restart begins. */
void hf_skip_reset(struct hf_skip *skip);

/* Bounds for the assignment that follows, NULL for none. The centroids moved from
 * fit->centers.previous to fit->centers.current since the last. */
hf_status hf_skip_arm(struct hf_fit *fit, struct hf_assign_bounds **bounds);

/* After the assignment: learn from what it skipped. HF_SKIP_AUTO uses bounds again as long as they
 * settled at least a sixteenth of the work; when they do not, they rest for 1, then 2, 4, 8, 8, ...
 * iterations (one less where rows are packed). Where dense iterations are cheap (packed rows) and
 * rows are many, a few rows with bounds of their own show first whether all shall have them; bounds
 * that did not pay are tested on some rows before they are used again. Packed rows whose bounds
 * settle less sweep over the centroids that moved once those are few enough. The rule counts work
 * and reads no clock, so that a run can be repeated. */
void hf_skip_learn(struct hf_fit *fit, const struct hf_assign_bounds *used,
                   const struct hf_assign_stats *stats);

/* The label of a row was changed by hand. */
void hf_skip_forget_row(struct hf_skip *skip, int64_t row);

#endif
