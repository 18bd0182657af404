/* SPDX-License-Identifier: Apache-2.0
 * Reference of moments: each worker takes a range of features and walks all rows. */
#include "base/dtype.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/moments/moments.h"
#include "ops/reference.h"

#define FEATURES 16 /* of a range: two cache lines of sums */

static void sum_columns(void *job, int worker, int64_t begin, int64_t end) {
    (void)worker;
    const struct hf_moments_args *args = job;
    const int64_t d = args->x.cols;
    int64_t limb[HF_MAX_LIMBS];
    for (int64_t i = 0; i < args->x.rows; i++) {
        const void *row = hf_array_row(&args->x, i);
        for (int64_t j = begin; j < end; j++) {
            const double t = hf_load_f64(row, args->x.dtype, j) - args->shift[j];
            hf_fixed_limbs(t, args->mult[j], args->bits, limb);
            args->sum[j] += limb[0];
            args->sum[d + j] += limb[1];
            hf_fixed_limbs(t * t, args->mult_square[j], args->bits, limb);
            args->sum_square[j] += limb[0];
            args->sum_square[d + j] += limb[1];
        }
    }
}

static hf_status moments_run(const struct hf_call *call) {
    const struct hf_moments_args *args = call->args;
    for (int64_t i = 0; i < hf_moments_batch(args); i++) {
        struct hf_moments_args one = hf_moments_problem(args, i);
        hf_parallel_for(call->stream, one.x.cols, FEATURES, sum_columns, &one);
    }
    return HF_OK;
}

static double moments_estimate(const struct hf_call *call) {
    const struct hf_moments_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(40 * values, 1, values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "moments_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = moments_run,
                                            .estimate = moments_estimate}};

const struct hf_kernel_table hf_moments_kernels_scalar = {kernels, 1};
