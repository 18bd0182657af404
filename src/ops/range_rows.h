/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HF_RANGE_ROWS_H
#define HF_RANGE_ROWS_H

#include "ops/reference.h"

#define HF_RANGE_BYTES ((size_t)64 << 10)

/* Rows of a range of a parallel loop: at most `most`, and of wide rows fewer, so that each worker
 * gets some of a piece that fits into the caches. A multiple of `step`. */
static inline int64_t hf_range_rows(const hf_array *x, int64_t most, int64_t step) {
    const int64_t fit = (int64_t)(HF_RANGE_BYTES / hf_row_bytes(x)) / step * step;
    return fit < step ? step : fit < most ? fit : most;
}

#endif
