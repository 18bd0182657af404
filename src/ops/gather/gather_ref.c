/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/gather/gather.h"

static void to_f32(float *dst, const void *src, hf_dtype dtype, int64_t count) {
    for (int64_t j = 0; j < count; j++)
        dst[j] = (float)hf_load_f64(src, dtype, j);
}

static hf_status gather_run(const struct hf_call *call) {
    const struct hf_gather_args *a = call->args;
    const int64_t d = a->x.cols;
    for (int64_t i = 0; i < a->count; i++) {
        const void *row = hf_array_row(&a->x, a->index[i]);
        if (a->type == HF_F64)
            hf_to_f64((double *)a->out + i * d, row, a->x.dtype, d);
        else
            to_f32((float *)a->out + i * d, row, a->x.dtype, d);
    }
    return HF_OK;
}

static const struct hf_kernel kernels[] = {{.name = "gather_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = gather_run}};

const struct hf_kernel_table hf_gather_kernels_scalar = {kernels, 1};
