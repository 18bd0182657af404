/* SPDX-License-Identifier: Apache-2.0
 * Sparse matrices and their blocks for the cases of the sparse ops. Everything depends on the case
 * number and the generator alone. */
#ifndef HF_SPARSE_CASE_H
#define HF_SPARSE_CASE_H

#include "core/case.h"
#include "ops/sparse.h"

enum hf_sparse_kind {
    HF_SPARSE_RANDOM,    /* some elements anywhere in each row */
    HF_SPARSE_BAND,      /* neighbours of the diagonal */
    HF_SPARSE_GRID,      /* five points of a square grid */
    HF_SPARSE_DIAGONAL,  /* nothing else */
    HF_SPARSE_HUB,       /* row and column 0 full */
    HF_SPARSE_EXPONENTS, /* rows from 1e-30 to 1e30 */
    HF_SPARSE_STENCIL,   /* five points, the same numbers in each row; large float64 ones come with
                            their stencils */
    HF_SPARSE_APART,     /* the same with another diagonal in each row */
    HF_SPARSE_LONG, /* a band in which some rows have ten times as many elements; the last, for ops
                            that mind no blocks */
    HF_SPARSE_KINDS
};

struct hf_sparse_shape {
    enum hf_sparse_kind kind;
    int64_t n;
    hf_dtype dtype;
};

/* Shape of case `id`; false past the last. */
bool hf_sparse_case(int64_t id, struct hf_sparse_shape *shape);

/* A square matrix with ascending columns in which the diagonal is more than twice the sum of the
 * other absolute values of its row. False when there is no memory. */
bool hf_sparse_make(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                    struct hf_sparse *a);

/* The name of the case: what the shape says, then fmt. */
void hf_sparse_name(struct hf_case *c, const struct hf_sparse_shape *shape, const char *fmt, ...)
    PRINTF_LIKE(3, 4);

/* [n] numbers from N(0, 1); NULL when there is no memory. */
double *hf_sparse_vector(struct hf_rng *rng, struct hf_case *c, int64_t n, bool out);

/* [n] 1 / diagonal */
double *hf_sparse_inverse(struct hf_case *c, const struct hf_sparse *a);

/* Give the matrix its slices, in ranges of rows [ranges + 1]; none where they do not pay. */
void hf_sparse_slice(struct hf_case *c, struct hf_sparse *a, const int64_t *range_row,
                     int64_t ranges);

struct hf_sparse_blocks {
    int64_t *start; /* [count + 1]; NULL when there is no memory */
    int64_t count, largest;
};

/* Rows in blocks of random sizes up to `most`. */
struct hf_sparse_blocks hf_sparse_blocks(struct hf_rng *rng, struct hf_case *c, int64_t n,
                                         int64_t most);

/* A matrix whose rows are in blocks, and a right-hand side. */
struct hf_sparse_system {
    struct hf_sparse a;
    double *inverse; /* [n] 1 / diagonal */
    struct hf_sparse_blocks blocks;
    double *b; /* [n] */
};

/* With blocks of up to `most` rows. False when there is no memory. */
bool hf_sparse_system(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                      int64_t most, struct hf_sparse_system *system);

/* The stencils of a, whose arrays become the case's, where the shape asks for some. */
void hf_sparse_stencils(struct hf_case *c, const struct hf_sparse_shape *shape, struct hf_sparse *a,
                        const double *inverse);

/* [n, 2] elements left of the block's columns, and inside (ops/sweep/sweep.h) */
int32_t *hf_sparse_inner(struct hf_case *c, const struct hf_sparse *a,
                         const struct hf_sparse_blocks *blocks);

#endif
