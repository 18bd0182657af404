/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HF_RELAX_DENSE_H
#define HF_RELAX_DENSE_H

#include <stdbool.h>
#include <stdint.h>

/* Replace a [m, m] by its inverse: Gauss-Jordan elimination with row pivots. pivot [m] is scratch.
 * False: singular to working precision; a holds anything then. */
bool hf_dense_invert(double *a, int64_t m, int64_t *pivot);

/* Replace a symmetric matrix in an envelope by its Cholesky factor. Row i has the elements
 * envelope[i] .. envelope[i + 1] - 1, the last of them the diagonal, which comes out as 1 / L_ii.
 * False: not positive definite. */
bool hf_envelope_factor(double *a, const int64_t *envelope, int64_t m);

#endif
