/* SPDX-License-Identifier: Apache-2.0
 * sweep: one global iteration of async-(k) (Anzt, Tomov, Dongarra, Heuveline 2012) in which all
 * blocks of rows see the x of the iteration before: each makes k Jacobi sweeps of its own, what
 * lies outside it stays. k = 1 is Jacobi's method whatever the blocks are.
 *
 * The residual of row i is b_i - sum if k is 1, else (b_i - sum over the columns outside the block)
 * - sum over those inside; each sum runs in the order of the elements. x_i + damping * (inverse_i *
 * residual_i) is the new value; with momentum, momentum * (x_i - before_i) is added, which makes
 * it a step of Chebyshev's method. */
#ifndef HF_SWEEP_H
#define HF_SWEEP_H

#include "core/run.h"
#include "ops/sparse.h"
#include <stdbool.h>

#define HF_SWEEP_STENCIL_ROWS 1024 /* of the largest block: of larger ones kernels read the rows */

struct hf_sweep_args {
    struct hf_sparse a;         /* [n, n], columns of each row in ascending order; slices, if there
                                   are any, in one range */
    const double *inverse;      /* [n] 1 / diagonal */
    const int64_t *block_start; /* [blocks + 1], ascending from 0 to n */
    int64_t blocks;
    int64_t largest;      /* rows of the largest block */
    const int32_t *inner; /* [n, 2] of each row the number of elements left of its block's columns,
                             and of those inside; NULL if k is 1 */
    int k;                /* sweeps inside a block, at least 1 */
    double damping;
    double momentum;       /* 0 unless k is 1 */
    const double *before;  /* [n] x of the step before; NULL means 0 */
    const uint8_t *frozen; /* [blocks] not 0: nobody works on the block, its x stays; NULL: none */
    const double *b;       /* [n] */
    const double *x;       /* [n]; NULL means 0 */
    double *x_new;         /* [n] out, shares no memory with x; may be before */
    double *square;        /* out: sum of the squared residuals of x, blocks in order, each with
                              lanes as a part of ops/sparse.h; NULL when not wanted */
};

#endif
