/* SPDX-License-Identifier: Apache-2.0
 * axpy: y = beta y + alpha (scale * x), element by element, and the sum of y_i w_i of the new y in
 * the order of ops/sparse.h. */
#ifndef HF_AXPY_H
#define HF_AXPY_H

#include "core/run.h"
#include "ops/sparse.h"

struct hf_axpy_args {
    int64_t n;
    double alpha, beta;  /* beta = 0: what was in y does not matter */
    const double *x;     /* [n]; NULL: y stays as it is, for the sum alone */
    const double *scale; /* [n]; NULL means 1 */
    double *y;           /* [n] in, out; may be x */
    const double *w;     /* [n], may be y or x; NULL when no sum is wanted */
    double *dot;         /* out: the sum; NULL when not wanted */
};

#endif
