/* SPDX-License-Identifier: Apache-2.0
 * Sparse matrices of ops, and the order of their sums. A sum over the elements of a row runs in
 * their order, each product rounded; a sum over rows is the sum of parts of SPARSE_PART rows in
 * their order, and in a part term i goes to lane i % SPARSE_LANES (base/tree.h). So results do not
 * depend on threads or on vectors. */
#ifndef HF_SPARSE_H
#define HF_SPARSE_H

#include "base/compiler.h"
#include "base/tree.h"
#include <holdfast/array.h>

#define SPARSE_PART 1024 /* rows of a part of a sum */
#define SPARSE_LANES 8

/* In compressed rows; element numbers in 64 bits. */
struct hf_sparse {
    int64_t rows, cols;
    const int64_t *row_start; /* [rows + 1] */
    const int32_t *column;    /* [elements] */
    hf_dtype dtype;           /* of value: HF_F64 or HF_F32 */
    const void *value;        /* [elements] */
};

static inline int64_t hf_sparse_elements(const struct hf_sparse *a) {
    return a->row_start[a->rows];
}

/* Bytes that a pass over the matrix reads. */
static inline double hf_sparse_bytes(const struct hf_sparse *a, int64_t elements) {
    return (a->dtype == HF_F32 ? 8.0 : 12.0) * (double)elements + 8.0 * (double)a->rows;
}

static inline int64_t hf_sparse_parts(int64_t rows) {
    return (rows + SPARSE_PART - 1) / SPARSE_PART;
}

ALWAYS_INLINE double sparse_value(const void *value, hf_dtype dtype, int64_t e) {
    return dtype == HF_F32 ? (double)((const float *)value)[e] : ((const double *)value)[e];
}

/* Sum of value * x over elements [first, last) */
ALWAYS_INLINE double sparse_dot(const struct hf_sparse *a, hf_dtype dtype, int64_t first,
                                int64_t last, const double *x) {
    double sum = 0;
    for (int64_t e = first; e < last; e++)
        sum += sparse_value(a->value, dtype, e) * x[a->column[e]];
    return sum;
}

/* Lanes of a part of a sum over rows. */
struct sparse_sum {
    double lane[SPARSE_LANES];
};

ALWAYS_INLINE void sparse_sum_add(struct sparse_sum *sum, int64_t i, double term) {
    sum->lane[i % SPARSE_LANES] += term;
}

ALWAYS_INLINE double sparse_sum_end(struct sparse_sum *sum) {
    return hf_tree_fold(sum->lane, SPARSE_LANES);
}

/* The parts of a sum, in order. */
static inline double hf_sparse_total(const double *part, int64_t parts) {
    double total = 0;
    for (int64_t i = 0; i < parts; i++)
        total += part[i];
    return total;
}

#endif
