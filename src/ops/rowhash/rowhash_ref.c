/* SPDX-License-Identifier: Apache-2.0
 * Reference of rowhash: one element after the other through hf_fixed_limbs(). */
#include "base/dtype.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/reference.h"
#include "ops/rowhash/rowhash.h"
#include <math.h>

#define GRAIN 256 /* rows */

/* r_i of update.h */
static double row_factor(const struct hf_rowhash_args *args, const void *row, double weight) {
    if (args->metric != HF_COSINE)
        return weight;
    double sum = 0;
    for (int64_t j = 0; j < args->x.cols; j++) {
        const double v = hf_load_f64(row, args->x.dtype, j);
        sum += v * v;
    }
    return sum > 0 ? weight / sqrt(sum) : 0;
}

static uint64_t fold(const struct hf_rowhash_args *args, int64_t at,
                     const int64_t limb[HF_MAX_LIMBS]) {
    uint64_t hash = 0;
    for (int l = 0; l < args->sums->limbs; l++)
        hash += args->factor[l * (args->x.cols + 1) + at] * (uint64_t)limb[l];
    return hash;
}

static uint64_t hash_row(const struct hf_rowhash_args *args, int64_t i) {
    const struct hf_sums *s = args->sums;
    const void *row = hf_array_row(&args->x, i);
    const double weight = args->weights ? args->weights[i] : 1;
    const double factor = row_factor(args, row, weight);
    int64_t limb[HF_MAX_LIMBS];
    uint64_t hash = 0;
    for (int64_t j = 0; j < args->x.cols; j++) {
        hf_fixed_limbs(hf_load_f64(row, args->x.dtype, j) * factor, s->mult[j], s->bits, limb);
        hash += fold(args, j, limb);
    }
    if (!s->weight)
        return hash;
    hf_fixed_limbs(weight, s->weight_mult, s->bits, limb);
    return hash + fold(args, args->x.cols, limb);
}

static void hash_rows(void *job, int worker, int64_t begin, int64_t end) {
    const struct hf_rowhash_args *args = job;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        args->hash[i] = hash_row(args, i);
}

static hf_status rowhash_run(const struct hf_call *call) {
    struct hf_rowhash_args args = *(const struct hf_rowhash_args *)call->args;
    hf_parallel_for(call->stream, args.x.rows, GRAIN, hash_rows, &args);
    return HF_OK;
}

static double rowhash_estimate(const struct hf_call *call) {
    const struct hf_rowhash_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(20 * values, 1, values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "rowhash_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = rowhash_run,
                                            .estimate = rowhash_estimate}};

const struct hf_kernel_table hf_rowhash_kernels_scalar = {kernels, 1};
