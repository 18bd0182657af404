/* SPDX-License-Identifier: Apache-2.0
 * gather: some rows of a matrix as float64 or float32. */
#ifndef HF_GATHER_H
#define HF_GATHER_H

#include "core/run.h"

struct hf_gather_args {
    hf_array x;           /* [n, d] any data type */
    const int64_t *index; /* [count] rows of x, in any order */
    int64_t count;
    hf_dtype type; /* of out: HF_F64, or HF_F32 unless x is HF_F64, so that every value is exact */
    void *out;     /* [count, d] */
};

static inline hf_status hf_gather(hf_context *ctx, const struct hf_gather_args *args) {
    return hf_run(ctx, HF_OP_GATHER, args);
}

#endif
