/* SPDX-License-Identifier: Apache-2.0
 * Reference of spmv: one row after the other. */
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/spmv/spmv.h"

static void add_parts(const struct hf_spmv_args *args, const double *other, double *sum) {
    struct sparse_total total = {{0}, 0};
    for (int64_t first = 0; first < args->a.rows; first += SPARSE_PART) {
        struct sparse_sum part = {{0}};
        for (int64_t i = first; i < args->a.rows && i < first + SPARSE_PART; i++)
            sparse_sum_add(&part, i, args->y[i] * other[i]);
        sparse_total_add(&total, sparse_sum_end(&part));
    }
    *sum = sparse_total_end(&total);
}

static hf_status spmv_run(const struct hf_call *call) {
    const struct hf_spmv_args *args = call->args;
    const struct hf_sparse *a = &args->a;
    for (int64_t i = 0; i < a->rows; i++) {
        const double sum = sparse_dot(a, a->dtype, a->row_start[i], a->row_start[i + 1], args->x);
        args->y[i] = args->b != NULL ? args->b[i] - sum : sum;
    }
    if (args->square != NULL)
        add_parts(args, args->y, args->square);
    if (args->dot != NULL)
        add_parts(args, args->x, args->dot);
    return HF_OK;
}

static double spmv_estimate(const struct hf_call *call) {
    const struct hf_spmv_args *args = call->args;
    const double elements = (double)args->a.elements;
    return hf_estimate_ns(16 * elements, 1, 16 * elements);
}

static const struct hf_kernel kernels[] = {{.name = "spmv_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = spmv_run,
                                            .estimate = spmv_estimate}};

const struct hf_kernel_table hf_spmv_kernels_scalar = {kernels, 1};
