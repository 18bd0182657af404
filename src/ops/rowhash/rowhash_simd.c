/* SPDX-License-Identifier: Apache-2.0
 * rowhash a block of features at a time, which the compiler makes vectors of; compiled once per
 * instruction set. It rounds before it makes integers, where update does both in one addition. */
#include "base/dtype.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/chains.h"
#include "ops/estimate.h"
#include "ops/reference.h"
#include "ops/rowhash/rowhash.h"
#include <math.h>
#include <string.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_rowhash_kernels) = {NULL, 0};
#else

#define GRAIN 256 /* rows */
#define BLOCK 64  /* features */

/* A whole number of at most 2^51 as an integer, times `factor`; AVX2 cannot convert it. */
ALWAYS_INLINE uint64_t weigh(double whole, uint64_t factor) {
    const double moved = whole + HF_RINT_MAGIC;
    const double magic = HF_RINT_MAGIC;
    uint64_t bits, base;
    memcpy(&bits, &moved, sizeof bits);
    memcpy(&base, &magic, sizeof base);
    return (bits - base) * factor;
}

/* Features [j, j + count) of a row: v are x_ij * r_i. */
ALWAYS_INLINE uint64_t hash_block(const struct hf_rowhash_args *args, const double *v, int64_t j,
                                  int count) {
    const struct hf_sums *s = args->sums;
    const double *mult = s->mult + j;
    const uint64_t *factor = args->factor + j;
    const double scale = (double)(INT64_C(1) << s->bits);
    double high[BLOCK], rest[BLOCK];
    uint64_t hash = 0;
    for (int i = 0; i < count; i++) {
        const double t = v[i] * mult[i];
        high[i] = __builtin_rint(t);
        rest[i] = t - high[i];
    }
    for (int i = 0; i < count; i++)
        hash += weigh(high[i], factor[i]);
    if (s->limbs == 1)
        return hash;
    factor += args->x.cols + 1;
    for (int i = 0; i < count; i++)
        hash += weigh(__builtin_rint(rest[i] * scale), factor[i]);
    return hash;
}

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

static uint64_t hash_row(const struct hf_rowhash_args *args, int64_t i) {
    const int64_t d = args->x.cols;
    const size_t size = hf_dtype_bytes(args->x.dtype);
    const char *row = hf_array_row(&args->x, i);
    const double weight = args->weights ? args->weights[i] : 1;
    const double factor = factor_of(args, row, weight);
    uint64_t hash = args->sums->weight ? hash_weight(args, weight) : 0;
    double v[BLOCK];
    for (int64_t j = 0; j < d; j += BLOCK) {
        const int count = d - j < BLOCK ? (int)(d - j) : BLOCK;
        hf_to_f64(v, row + (size_t)j * size, args->x.dtype, count);
        for (int f = 0; factor != 1 && f < count; f++)
            v[f] *= factor;
        hash += count == BLOCK ? hash_block(args, v, j, BLOCK) : hash_block(args, v, j, count);
    }
    return hash;
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
