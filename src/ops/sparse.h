/* SPDX-License-Identifier: Apache-2.0
 * Sparse matrices of ops, and the order of their sums. A sum over the elements of a row runs in
 * their order, each product rounded. A sum over rows has parts of SPARSE_PART rows; in a part term
 * i goes to lane i % SPARSE_LANES, and part i to lane i % SPARSE_TOTAL of the total (base/tree.h).
 * So results do not depend on threads, vectors or devices. */
#ifndef HF_OP_SPARSE_H
#define HF_OP_SPARSE_H

#include "base/compiler.h"
#include "base/tree.h"
#include "ops/stencils.h"
#include <holdfast/array.h>

struct hf_slices;

#define SPARSE_PART 1024 /* rows of a part of a sum */
#define SPARSE_LANES 8
#define SPARSE_TOTAL 256

/* In compressed rows; element numbers in 64 bits. */
struct hf_sparse {
    int64_t rows, cols, elements;
    const int64_t *row_start;       /* [rows + 1] */
    const int32_t *column;          /* [elements] */
    hf_dtype dtype;                 /* of value: HF_F64 or HF_F32 */
    const void *value;              /* [elements] */
    const struct hf_slices *slices; /* the same once more, for vectors (ops/slices.h); NULL: none */
    struct hf_stencils stencils;    /* and for kernels of a GPU */
};

#define SPARSE_SLICED_NS 0.12 /* an element in slices takes about, */
#define SPARSE_ROWS_NS 0.5    /* and a row after the other */
#define SPARSE_SHARE_NS 8e3   /* worth a range of its own in a loop of all threads */

/* Rows of such a range: a multiple of `unit`. passes: over the matrix. */
static inline int64_t hf_sparse_grain(const struct hf_sparse *a, double passes, int64_t unit) {
    const double ns = a->slices != NULL ? SPARSE_SLICED_NS : SPARSE_ROWS_NS;
    const double row_ns = passes * ns * (double)a->elements / (double)(a->rows + 1) + 1;
    return unit * (1 + (int64_t)(SPARSE_SHARE_NS / (row_ns * (double)unit)));
}

/* Bytes that a pass over the matrix reads. */
static inline double hf_sparse_bytes(const struct hf_sparse *a) {
    return (a->dtype == HF_F32 ? 8.0 : 12.0) * (double)a->elements + 8.0 * (double)a->rows;
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

/* Parts of a sum, in order. */
struct sparse_total {
    double lane[SPARSE_TOTAL];
    int64_t parts;
};

ALWAYS_INLINE void sparse_total_add(struct sparse_total *total, double part) {
    total->lane[total->parts++ % SPARSE_TOTAL] += part;
}

/* Lanes without a part are 0 and change nothing. */
static inline double sparse_total_end(struct sparse_total *total) {
    int lanes = 1;
    while (lanes < SPARSE_TOTAL && lanes < total->parts)
        lanes *= 2;
    return hf_tree_fold(total->lane, lanes);
}

static inline double hf_sparse_total(const double *part, int64_t parts) {
    struct sparse_total total = {{0}, 0};
    int64_t i = 0;
    for (; i + SPARSE_TOTAL <= parts; i += SPARSE_TOTAL)
        for (int lane = 0; lane < SPARSE_TOTAL; lane++)
            total.lane[lane] += part[i + lane];
    for (total.parts = i; i < parts; i++)
        sparse_total_add(&total, part[i]);
    return sparse_total_end(&total);
}

#endif
