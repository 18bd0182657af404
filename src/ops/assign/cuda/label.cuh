/* SPDX-License-Identifier: Apache-2.0
 * The label of an open row, once float64 has decided it. */
#ifndef HF_ASSIGN_CUDA_LABEL_CUH
#define HF_ASSIGN_CUDA_LABEL_CUH

#include "ops/assign/cuda/filter.h"

/* Row `row` of problem b. old: its old label, if marks are wanted; the filter has left its mark at
 * 0, and others set the bits beside it. */
static __device__ __forceinline__ void hf_settle_label(int32_t *labels,
                                                       const struct hf_filter_marks &marks,
                                                       int64_t b, int64_t n, int32_t row,
                                                       int32_t old, int32_t label) {
    labels[b * n + row] = label;
    if (marks.word && label != old)
        atomicOr(marks.word + b * marks.words + row / 32, 1u << row % 32);
}

#endif
