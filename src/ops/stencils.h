/* SPDX-License-Identifier: Apache-2.0
 * A matrix of which few rows are different, as those of grids: a row is a stencil, elements at
 * distances from the diagonal, and a byte says which. That is a tenth of the memory that a pass
 * over compressed rows reads. A diagonal that differs from row to row is kept apart. */
#ifndef HF_STENCILS_H
#define HF_STENCILS_H

#include "base/status.h"
#include <stdint.h>

#define HF_STENCILS_MOST 255           /* different ones */
#define HF_STENCILS_MOST_ELEMENTS 3072 /* of all of them */

struct hf_sparse;

struct hf_stencils {
    int count;              /* of different ones; 0: there are none of this matrix */
    int elements;           /* of all of them */
    const uint8_t *of_row;  /* [rows] */
    const int32_t *start;   /* [count + 1] */
    const int32_t *offset;  /* [elements] column - row, ascending in each */
    const double *value;    /* [elements] */
    const double *inverse;  /* [count] 1 / diagonal; NULL where that differs from row to row: */
    const double *diagonal; /* [rows] the values at distance 0; NULL: `value` has them */
};

/* Stencils of rows [first, last) of a square matrix with ascending columns and of 1 / diagonal,
 * inverse [rows]; other rows get number 0. count is 0 where too many rows are different, or too few
 * are alike for it to pay. HF_E_NOMEM. Free with hf_stencils_clear(). */
hf_status hf_stencils_make(const struct hf_sparse *a, const double *inverse, int64_t first,
                           int64_t last, struct hf_stencils *out);
void hf_stencils_clear(struct hf_stencils *s);

#endif
