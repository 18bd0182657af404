/* SPDX-License-Identifier: Apache-2.0
 * Where candidates of open rows are listed: HF_FILTER_SLOTS numbers of centroids a row, in 16 bits
 * where these hold them, for they take more memory than anything else that a row needs. */
#ifndef HF_ASSIGN_CUDA_SLOTS_H
#define HF_ASSIGN_CUDA_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HF_FILTER_SLOTS = 64 /* candidates of an open row that are listed */
};

struct hf_filter_slots {
    void *at;    /* [rows, HF_FILTER_SLOTS] */
    bool narrow; /* uint16_t, else int32_t */
};

static inline bool hf_slots_narrow(int64_t k) { return k <= UINT16_MAX + 1; }

static inline int hf_slots_bytes(int64_t k) { return hf_slots_narrow(k) ? 2 : 4; }

#ifdef __CUDACC__
/* Slot i of a row. */
static __device__ __forceinline__ int32_t hf_slot_get(const struct hf_filter_slots &slots,
                                                      int64_t row, int i) {
    const int64_t at = row * HF_FILTER_SLOTS + i;
    return slots.narrow ? static_cast<const uint16_t *>(slots.at)[at]
                        : static_cast<const int32_t *>(slots.at)[at];
}

static __device__ __forceinline__ void hf_slot_put(const struct hf_filter_slots &slots, int64_t row,
                                                   int i, int32_t centroid) {
    const int64_t at = row * HF_FILTER_SLOTS + i;
    if (slots.narrow)
        static_cast<uint16_t *>(slots.at)[at] = static_cast<uint16_t>(centroid);
    else
        static_cast<int32_t *>(slots.at)[at] = centroid;
}
#endif

#endif
