/* SPDX-License-Identifier: Apache-2.0
 * spmv: a sparse matrix times a vector, or the residual of a linear system, with the sums that
 * solvers want of it. The order of sums is that of ops/sparse.h. */
#ifndef HF_SPMV_H
#define HF_SPMV_H

#include "core/run.h"
#include "ops/sparse.h"

struct hf_spmv_args {
    struct hf_sparse a;
    const double *x; /* [cols] */
    const double *b; /* [rows]; NULL: y = A x, else y = b - A x */
    double *y;       /* [rows] out, shares no memory with x; may be b */
    double *square;  /* out: sum of y_i^2; NULL when not wanted */
    double *dot;     /* out: sum of x_i y_i, of a square matrix; NULL when not wanted */
};

#endif
