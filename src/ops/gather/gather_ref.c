/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/gather/gather.h"

static hf_status gather_run(void *stream, const void *p, void *ws) {
    (void)stream;
    (void)ws;
    const struct hf_gather_args *a = p;
    const int64_t d = a->x.cols;
    for (int64_t i = 0; i < a->count; i++)
        hf_to_f64(a->out + i * d, hf_array_row(&a->x, a->index[i]), a->x.dtype, d);
    return HF_OK;
}

static const struct hf_kernel rows[] = {{.name = "gather_ref",
                                         .device = HF_DEV_HOST,
                                         .dtypes = HF_DT_DATA,
                                         .isa = HF_ISA_ID_scalar,
                                         .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                         .run = gather_run}};

const struct hf_kernel_table hf_gather_rows_scalar = {rows, 1};
