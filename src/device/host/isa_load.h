/* SPDX-License-Identifier: Apache-2.0
 * Loads by element type on top of the verbs of isa_<x>.h. dtype is a constant at every call: the
 * switch is gone after inlining. */
#ifndef HF_ISA_LOAD_H
#define HF_ISA_LOAD_H

#include "device/host/isa.h"
#include <holdfast/base.h>

/* Elements j .. j + VDW - 1 of a packed row as float64, exactly. */
ALWAYS_INLINE vd vd_load_as(const void *row, hf_dtype dtype, int64_t j) {
    switch (dtype) {
    case HF_F64:
        return vd_load((const double *)row + j);
    case HF_F16:
        return vd_from_f16((const uint16_t *)row + j);
    case HF_BF16:
        return vd_from_bf16((const uint16_t *)row + j);
    case HF_U8:
        return vd_from_u8((const uint8_t *)row + j);
    default:
        return vd_from_f32((const float *)row + j);
    }
}

/* The same for the first n <= VDW of them; the other lanes are 0 and are not read. */
ALWAYS_INLINE vd vd_load_as_n(const void *row, hf_dtype dtype, int64_t j, int n) {
    if (n == VDW)
        return vd_load_as(row, dtype, j);
    switch (dtype) {
    case HF_F64:
        return vd_load_n((const double *)row + j, n);
    case HF_F16:
        return vd_from_f16_n((const uint16_t *)row + j, n);
    case HF_BF16:
        return vd_from_bf16_n((const uint16_t *)row + j, n);
    case HF_U8:
        return vd_from_u8_n((const uint8_t *)row + j, n);
    default:
        return vd_from_f32_n((const float *)row + j, n);
    }
}

#endif
