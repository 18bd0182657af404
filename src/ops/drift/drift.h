/* SPDX-License-Identifier: Apache-2.0
 * drift: async-(k) in which blocks do not wait for one another. Each is relaxed `epochs` times with
 * whatever x the others have by then, so results are not repeatable; they converge where the
 * spectral radius of |I - damping D^-1 A| is below 1 (Chazan and Miranker 1969).
 *
 * Blocks belong to workers. A block whose epoch has fallen `lag` behind that of a worker is relaxed
 * by that worker too: so a worker that the system has put to sleep, or that is lost, holds nobody
 * up. One that it was working on right then is taken from it after a while; what it writes later is
 * not taken. None runs more than 2 lag epochs ahead of the slowest block, for the theory wants x of
 * bounded age. `spares` of the workers have no blocks of their own. */
#ifndef HF_DRIFT_H
#define HF_DRIFT_H

#include "core/run.h"
#include "ops/sparse.h"
#include <stdbool.h>

#define HF_DRIFT_TAKEN 16 /* of which a report tells */

/* The first time that a block was relaxed by a worker that it does not belong to. */
struct hf_drift_taken {
    int64_t block, epoch; /* it had so many then */
    int64_t worker;       /* that did */
    double after_s;       /* the beginning of the call */
};

/* What a call did. */
struct hf_drift_report {
    double square;       /* sum of the squared residuals that blocks had when last relaxed */
    int64_t relaxations; /* of blocks */
    int64_t takeovers;   /* those of them made for another worker */
    int64_t slowest;     /* least epoch of a block */
    int64_t taken_count; /* of `taken`, by the CPU's kernels */
    struct hf_drift_taken taken[HF_DRIFT_TAKEN];
};

struct hf_drift_args {
    struct hf_sparse a;         /* [n, n], columns of each row in ascending order */
    const double *inverse;      /* [n] 1 / diagonal */
    const int64_t *block_start; /* [blocks + 1], ascending from 0 to n */
    int64_t blocks;
    int64_t largest;      /* rows of the largest block */
    const int32_t *inner; /* [n, 2] as in ops/sweep/sweep.h, whatever k is */
    int k;                /* sweeps inside a block, at least 1 */
    double damping;
    int64_t epochs; /* at least 1 */
    int64_t lag;    /* 0: nobody takes over */
    double target;  /* all stop when the sum of squares is at most this; 0: never */
    const uint8_t
        *lost; /* [blocks] not 0: its worker falls silent at epoch lost_from; NULL: none */
    int64_t lost_from;
    bool ends; /* CPU: that worker ends or, where pause_s > 0, sleeps, in the middle of it */
    double pause_s;
    int32_t spares;                 /* CPU: workers without blocks; a worker is left in any case */
    const double *b;                /* [n] */
    double *x;                      /* [n] in, out; output 0 of the op's bound */
    struct hf_drift_report *report; /* out */
};

#endif
