/* SPDX-License-Identifier: Apache-2.0
 * The one definition of the reference distance and of a fixed-point term. Every reference kernel
 * uses them; every fast kernel must give the same bits. */
#ifndef HF_REFERENCE_H
#define HF_REFERENCE_H

#include "base/fixed.h"
#include "core/array.h"
#include <holdfast/array.h>
#include <holdfast/kmeans.h>

/* d(x, c) of two float64 vectors, features in order, one rounding for each operation:
 *   HF_EUCLIDEAN  sum of (x_j - c_j)^2
 *   HF_COSINE     1 - dot / (|x| * |c|); 1 where |x| or |c| is 0
 *   HF_DOT        -dot
 * with dot = sum of x_j * c_j and |x| = hf_reference_norm(x). */
double hf_reference_distance(hf_metric metric, const double *x, const double *c, int64_t d);

/* sqrt of the ordered sum of x_j^2. */
double hf_reference_norm(const double *x, int64_t d);

/* The last step of the cosine distance. */
static inline double hf_cosine_distance(double dot, double norm_x, double norm_c) {
    if (norm_x == 0 || norm_c == 0)
        return 1;
    return 1 - dot / (norm_x * norm_c);
}

/* Bytes from one row to the next, for loops over rows. */
static inline size_t hf_row_bytes(const hf_array *a) {
    return (size_t)hf_array_stride(a) * hf_dtype_bytes(a->dtype);
}

/* The limbs of v as base/fixed.h defines them. */
void hf_fixed_limbs(double v, double mult, int bits, int64_t limb[HF_MAX_LIMBS]);

#endif
