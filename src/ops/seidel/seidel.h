/* SPDX-License-Identifier: Apache-2.0
 * seidel: one sweep of Gauss-Seidel in place. Blocks of one colour share no element of the matrix,
 * so they may run at once; colours follow one another, and so do the rows of a block. One block is
 * the plain method; blocks of one row are the multicolour one.
 *
 * x_i + damping * (inverse_i * r_i) is the new value, r_i = b_i - sum of the row in the order of
 * its elements. With `before` the elements left of the diagonal come last: a row then waits for the
 * x of the row above it with few additions left, which plain sweeps are a third faster for. */
#ifndef HF_SEIDEL_H
#define HF_SEIDEL_H

#include "core/run.h"
#include "ops/sparse.h"
#include <stdbool.h>

struct hf_seidel_args {
    struct hf_sparse a;         /* [n, n]; has slices only if blocks are rows in the order of their
                                   colours (colour_block[i] = i), which are the slices' ranges */
    const double *inverse;      /* [n] 1 / diagonal */
    const int64_t *block_start; /* [blocks + 1], ascending from 0 to n */
    int64_t blocks;
    const int64_t *colour_start; /* [colours + 1] into colour_block, from 0 to blocks */
    const int32_t *colour_block; /* [blocks] those of each colour */
    int64_t colours;
    bool backward;         /* the last colour first, and the last row of each block */
    const int32_t *before; /* [n] elements left of the diagonal, to come last; NULL: in order. Then
                              there are no slices. On the CPU alone */
    double damping;
    const double *b; /* [n] */
    double *x;       /* [n] in, out */
    double *square;  /* out: sum of r_i^2, which is about |b - A x|^2; blocks in the order of
                        colour_block, in each one row after the other */
};

#endif
