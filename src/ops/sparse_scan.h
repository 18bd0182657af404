/* SPDX-License-Identifier: Apache-2.0
 * One look at the rows of a matrix in compressed rows: is it well-formed, which diagonal has it, is
 * it symmetric? */
#ifndef HF_SPARSE_SCAN_H
#define HF_SPARSE_SCAN_H

#include "ops/sparse.h"
#include <stdbool.h>

struct hf_sparse_scan {
    bool bad;         /* a column out of range, a value that is not finite, a diagonal element that
                         is missing, zero, or too small to divide by */
    bool unordered;   /* columns of some row do not ascend */
    bool negative;    /* some diagonal element */
    double dominance; /* largest sum of the absolute values of a row of I - D^-1 A */
    /* A number of each element above the diagonal, less those below, modulo 2^64: the number of a
     * place and of its mirror image is the same where the values have the same bits, and else
     * another one. 0 of all rows: the matrix is symmetric, but for a chance that nobody can raise
     * who does not know the key. */
    uint64_t mirror;
};

/* Rows [begin, end), with ascending row starts. inverse [rows]: 1 / diagonal of these. key: of the
 * mirror's number, the same for all rows; 0: that is not wanted. */
struct hf_sparse_scan hf_sparse_scan_rows(const struct hf_sparse *a, int64_t begin, int64_t end,
                                          uint64_t key, double *inverse);

/* Results of parts together. */
void hf_sparse_scan_add(struct hf_sparse_scan *to, const struct hf_sparse_scan *part);

#endif
