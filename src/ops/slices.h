/* SPDX-License-Identifier: Apache-2.0
 * A sparse matrix by slices of eight rows, for vectors (sliced ELLPACK: Monakov, Lokhmotov,
 * Avetisyan, HiPEAC 2010). Slot j of a slice has an element of each of its rows, in the order of
 * their elements, so sums have the bits that a row at a time gives. In a slot of consecutive
 * columns the row of lane i has column base + i: x is loaded as a vector, and an element takes
 * little more than its value. That is the rule in stencils and bands. Other slots have lists.
 *
 * A place without an element has value 0 and some column of the matrix: it adds 0 where x is
 * finite. */
#ifndef HF_SLICES_H
#define HF_SLICES_H

#include "base/parallel.h"
#include "ops/sparse.h"
#include <holdfast/base.h>
#include <stdbool.h>

#define SLICE_ROWS 8

/* Slices begin at the first row of a range, and every SLICE_ROWS rows from there. */
struct hf_slices {
    int64_t ranges;
    int64_t *range_row;   /* [ranges + 1] */
    int64_t *range_slice; /* [ranges + 1] */
    int64_t count;        /* slices */
    int64_t slots, lists;
    int64_t *slot;   /* [count + 1] where those of a slice begin */
    int64_t *list;   /* [count] number of its first list of columns; below 0: it has none */
    int32_t *base;   /* [slots] of consecutive columns; -1: they are in the next list */
    int32_t *column; /* [lists, SLICE_ROWS] */
    void *value;     /* [slots, SLICE_ROWS] */
};

/* Slices of a matrix with ascending columns in each row, in ranges of rows; whoever has them frees
 * what they hold. HF_E_UNSUPPORTED: they would take more than `most` bytes, or most places would be
 * without element; HF_E_NOMEM. *out is zero then. pool may be NULL. */
hf_status hf_slices_make(const struct hf_sparse *a, const int64_t *range_row, int64_t ranges,
                         uint64_t most, hf_pool *pool, struct hf_slices *out);
/* Has this machine kernels that read slices? */
bool hf_slices_serve(void);
void hf_slices_clear(struct hf_slices *slices);
uint64_t hf_slices_bytes(const struct hf_slices *slices, hf_dtype dtype);

#endif
