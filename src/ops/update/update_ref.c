/* SPDX-License-Identifier: Apache-2.0
 * Reference of update: each worker takes a range of features and walks all rows. */
#include "base/dtype.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/reference.h"
#include "ops/update/update.h"
#include <math.h>

#define FEATURES 16 /* of a range: two cache lines of sums */

/* r_i of update.h */
static double row_factor(const struct hf_update_args *args, const void *row, double weight) {
    if (args->metric != HF_COSINE)
        return weight;
    double sum = 0;
    for (int64_t j = 0; j < args->x.cols; j++) {
        const double v = hf_load_f64(row, args->x.dtype, j);
        sum += v * v;
    }
    return sum > 0 ? weight / sqrt(sum) : 0;
}

static void add_limbs(const struct hf_sums *s, int64_t *sum, int64_t limb_stride, int64_t sign,
                      const int64_t limb[HF_MAX_LIMBS]) {
    for (int l = 0; l < s->limbs; l++)
        sum[l * limb_stride] += sign * limb[l];
}

/* Features [begin, end) of a row into (sign = 1) or out of (-1) cluster c; feature 0 carries the
 * count. */
static void add_row(const struct hf_update_args *args, int64_t i, int32_t c, int64_t sign,
                    int64_t begin, int64_t end) {
    const struct hf_sums *s = args->sums;
    const void *row = hf_array_row(&args->x, i);
    const double weight = args->weights ? args->weights[i] : 1;
    const double factor = row_factor(args, row, weight);
    int64_t limb[HF_MAX_LIMBS];
    for (int64_t j = begin; j < end; j++) {
        hf_fixed_limbs(hf_load_f64(row, args->x.dtype, j) * factor, s->mult[j], s->bits, limb);
        add_limbs(s, s->sum + c * s->d + j, s->k * s->d, sign, limb);
    }
    if (begin > 0)
        return;
    s->count[c] += sign;
    if (s->weight) {
        hf_fixed_limbs(weight, s->weight_mult, s->bits, limb);
        add_limbs(s, s->weight + c, s->k, sign, limb);
    }
}

static void walk_rows(void *job, int worker, int64_t begin, int64_t end) {
    (void)worker;
    const struct hf_update_args *args = job;
    for (int64_t i = 0; i < args->x.rows; i++) {
        const int32_t from = args->old_labels ? args->old_labels[i] : -1;
        const int32_t to = args->labels[i];
        if (from == to)
            continue;
        if (from >= 0)
            add_row(args, i, from, -1, begin, end);
        if (to >= 0)
            add_row(args, i, to, 1, begin, end);
    }
}

static hf_status update_run(const struct hf_call *call) {
    struct hf_update_args args = *(const struct hf_update_args *)call->args;
    hf_parallel_for(call->stream, args.x.cols, FEATURES, walk_rows, &args);
    return HF_OK;
}

static double update_estimate(const struct hf_call *call) {
    const struct hf_update_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(20 * values, 1, values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "update_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = update_run,
                                            .estimate = update_estimate}};

const struct hf_kernel_table hf_update_kernels_scalar = {kernels, 1};
