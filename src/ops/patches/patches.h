/* SPDX-License-Identifier: Apache-2.0
 * patches: exact solutions in blocks of rows that may overlap, added up: one step of an additive or
 * restricted additive Schwarz method. A patch is a list of rows in an order of its own with a
 * factor of the matrix that these rows and columns make.
 *
 * Row p of a patch of m rows has elements envelope[p] .. envelope[p + 1] - 1 of `factor`:
 *   a Cholesky factor L: those left of the diagonal, from the first that is not zero, and last
 *   1 / L_pp; y = L^-1 r row by row, then z = L^-T y from the last row: z_p = y_p * (1 / L_pp),
 *   which times the row is taken from the y before it
 *   an inverse: all m
 * Sums over elements of a row have SPARSE_LANES lanes (ops/sparse.h). */
#ifndef HF_PATCHES_H
#define HF_PATCHES_H

#include "core/run.h"
#include "ops/sparse.h"
#include <stdbool.h>

struct hf_patches_args {
    int64_t n;                  /* unknowns */
    int64_t patches;            /* at least 1 */
    int64_t largest;            /* rows of the largest patch */
    int64_t places;             /* rows of all patches */
    int64_t elements;           /* of factor */
    const int64_t *patch_start; /* [patches + 1] places of each in patch_row */
    const int32_t *patch_row;   /* [places] unknowns, in the order of the patch */
    const int64_t *envelope;    /* [places + 1] from 0 to elements */
    const uint8_t *inverse;     /* [patches] not 0: the factor is the inverse */
    hf_dtype dtype;             /* of factor: HF_F64 or HF_F32 */
    const void *factor;         /* [elements] */
    const int64_t *own_start;   /* [n + 1] into own, from 0 to at most places */
    const int64_t *own;         /* the places that are added up for each unknown, in order */
    const double *r;            /* [n] */
    double scale;
    bool add;  /* z is added to, else written */
    double *z; /* [n] in, out: scale * (the sum of an unknown's places), may be r if not add */
};

#endif
