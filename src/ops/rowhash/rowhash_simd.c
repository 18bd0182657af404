/* SPDX-License-Identifier: Apache-2.0
 * rowhash on vectors; compiled once per instruction set. */
#include "base/parallel.h"
#include "core/kernel.h"
#include "ops/chains.h"
#include "ops/estimate.h"
#include "ops/range_rows.h"
#include "ops/reference.h"
#include "ops/rowhash/rowhash_row.h"
#include <math.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_rowhash_kernels) = {NULL, 0};
#else

#define GRAIN 256 /* rows, at most */

static uint64_t hash_weight(const struct hf_rowhash_args *args, double weight) {
    const struct hf_sums *s = args->sums;
    int64_t limb[HF_MAX_LIMBS];
    uint64_t hash = 0;
    hf_fixed_limbs(weight, s->weight_mult, s->bits, limb);
    for (int l = 0; l < s->limbs; l++)
        hash += args->factor[l * (args->x.cols + 1) + args->x.cols] * (uint64_t)limb[l];
    return hash;
}

/* r_i of update.h */
static double factor_of(const struct hf_rowhash_args *args, const void *row, double weight) {
    const void *rows[CHAIN_ROWS];
    double square[CHAIN_ROWS];
    if (args->metric != HF_COSINE)
        return weight;
    for (int r = 0; r < CHAIN_ROWS; r++)
        rows[r] = row;
    chain_squares(square, rows, args->x.dtype, args->x.cols);
    return square[0] > 0 ? weight / sqrt(square[0]) : 0;
}

static void hash_rows(void *job, int worker, int64_t begin, int64_t end) {
    const struct hf_rowhash_args *args = job;
    const struct rowhash_rule rule = rowhash_rule_of(args->sums, args->factor);
    const size_t row_bytes = hf_row_bytes(&args->x);
    const char *row = (const char *)args->x.data + (size_t)begin * row_bytes;
    (void)worker;
    for (int64_t i = begin; i < end; i++, row += row_bytes) {
        const double weight = args->weights ? args->weights[i] : 1;
        const double times = factor_of(args, row, weight);
        args->hash[i] = (args->sums->weight ? hash_weight(args, weight) : 0) +
                        rowhash_features(&rule, row, args->x.dtype, times);
    }
}

static hf_status rowhash_run(const struct hf_call *call) {
    struct hf_rowhash_args args = *(const struct hf_rowhash_args *)call->args;
    hf_parallel_for(call->stream, args.x.rows, hf_range_rows(&args.x, GRAIN, 1), hash_rows, &args);
    return HF_OK;
}

static double rowhash_estimate(const struct hf_call *call) {
    const struct hf_rowhash_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(8 * values, VDW, values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "rowhash_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .run = rowhash_run,
                                            .estimate = rowhash_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_rowhash_kernels) = {kernels, 1};

#endif
