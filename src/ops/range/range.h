/* SPDX-License-Identifier: Apache-2.0
 * range: least and largest value of each column, and which rows are not finite. */
#ifndef HF_RANGE_H
#define HF_RANGE_H

#include "core/run.h"
#include <stdbool.h>

/* All in/out, so that chunks can follow each other: start with min = +Inf, max = -Inf, whole =
 * true. */
struct hf_range_args {
    hf_array x;        /* [n, d] any data type */
    double *min, *max; /* [d] over the rows that are finite throughout */
    bool *whole;       /* stays true while every value of such rows is a whole number */
    uint8_t *row_bad;  /* [n] out: 1 where a row has NaN or Inf, else 0 */
    int64_t *bad_rows; /* added to: how many such rows */
};

static inline hf_status hf_range(hf_context *ctx, const struct hf_range_args *args) {
    return hf_run(ctx, HF_OP_RANGE, args);
}

#endif
