/* SPDX-License-Identifier: Apache-2.0
 * Reference of gemm: every element by itself, as include/holdfast/gemm.h defines it. */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/gemm/gemm.h"

#include <fenv.h>
#include <math.h>

#define GRAIN 4 /* rows of C */

/* The sum of the products of an element's row and column. */
struct line {
    struct hf_gemm_view a, b;
    int64_t row, col, k;
};

static double load_a(const struct line *l, int64_t p) {
    return hf_load_f64(l->a.data, l->a.dtype, l->row * l->a.row + p * l->a.col);
}

static double load_b(const struct line *l, int64_t p) {
    return hf_load_f64(l->b.data, l->b.dtype, p * l->b.row + l->col * l->b.col);
}

static double sum_f64(const struct line *l) {
    double total = 0;
    for (int64_t first = 0; first < l->k; first += HF_GEMM_BLOCK) {
        const int64_t end = hf_min64(l->k, first + HF_GEMM_BLOCK);
        double sum = 0;
        for (int64_t p = first; p < end; p++)
            sum = fma(load_a(l, p), load_b(l, p), sum);
        total = first == 0 ? sum : total + sum;
    }
    return total;
}

static float sum_f32(const struct line *l) {
    float total = 0;
    for (int64_t first = 0; first < l->k; first += HF_GEMM_BLOCK) {
        const int64_t end = hf_min64(l->k, first + HF_GEMM_BLOCK);
        float sum = 0;
        for (int64_t p = first; p < end; p++)
            sum = fmaf((float)load_a(l, p), (float)load_b(l, p), sum);
        total = first == 0 ? sum : total + sum;
    }
    return total;
}

static uint32_t sum_i32(const struct line *l) {
    uint32_t total = 0;
    for (int64_t p = 0; p < l->k; p++)
        total += (uint32_t)((int32_t)load_a(l, p) * (int32_t)load_b(l, p));
    return total;
}

static double quiet(double v) { return isnan(v) ? (double)NAN : v; }

static void element(const hf_gemm_args *args, const struct line *l, void *c, int64_t at) {
    const bool reads_c = args->beta != 0;
    if (args->dtype == HF_I8) {
        const uint32_t product = (uint32_t)(int32_t)args->alpha * sum_i32(l);
        uint32_t *const out = (uint32_t *)c + at;
        *out = product + (reads_c ? (uint32_t)(int32_t)args->beta * *out : 0);
    } else if (args->dtype == HF_F64) {
        double *const out = (double *)c + at;
        const double sum = sum_f64(l);
        *out = quiet(reads_c ? fma(args->alpha, sum, args->beta * *out) : args->alpha * sum);
    } else {
        const float alpha = (float)args->alpha, beta = (float)args->beta, sum = sum_f32(l);
        const float old = reads_c ? (float)hf_load_f64(c, args->dtype_c, at) : 0;
        const float v = reads_c ? fmaf(alpha, sum, beta * old) : alpha * sum;
        hf_store_f64(c, args->dtype_c, at, quiet((double)v));
    }
}

static void gemm_rows(void *job, int worker, int64_t begin, int64_t end) {
    const hf_gemm_args *const args = job;
    fenv_t before;
    (void)worker;
    (void)fegetenv(&before);
    (void)fesetenv(FE_DFL_ENV);
    for (int64_t i = begin; i < end; i++) {
        const int64_t b = i / args->m;
        struct line l = {hf_gemm_view_a(args, b), hf_gemm_view_b(args, b), i % args->m, 0,
                         hf_gemm_reads_ab(args) ? args->k : 0};
        for (l.col = 0; l.col < args->n; l.col++)
            element(args, &l, args->c, b * args->stride_c + l.row * args->ldc + l.col);
    }
    (void)fesetenv(&before);
}

static hf_status gemm_run(const struct hf_call *call) {
    const hf_gemm_args *const args = call->args;
    if (!hf_gemm_reads_ab(args) && args->beta == 1)
        return HF_OK;
    hf_parallel_for(call->stream, args->batch * args->m, GRAIN, gemm_rows, (void *)args);
    return HF_OK;
}

/* It stages nothing that could be signed. */
static bool gemm_supports(const struct hf_call *call) {
    const hf_gemm_args *const args = call->args;
    return args->signatures == NULL;
}

static double gemm_estimate(const struct hf_call *call) {
    const hf_gemm_args *const args = call->args;
    const double elements = (double)args->batch * (double)args->m * (double)args->n;
    return hf_estimate_ns(16 * elements * (double)args->k, 1, 8 * elements);
}

static const struct hf_kernel kernels[] = {
    {.name = "gemm_ref",
     .device = HF_DEV_HOST,
     .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64) | HF_DT(HF_F16) | HF_DT(HF_BF16) | HF_DT(HF_I8),
     .isa = HF_ISA_ID_scalar,
     .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
     .supports = gemm_supports,
     .run = gemm_run,
     .estimate = gemm_estimate}};

const struct hf_kernel_table hf_gemm_kernels_scalar = {kernels, 1};
