/* SPDX-License-Identifier: Apache-2.0
 * Sums of products as tensor cores and AMX make them, by whole numbers and scalar arithmetic
 * (docs/matmul.md). Matrices by rows, without transposes; alpha is 1, beta 0. */
#ifndef EMULATE_H
#define EMULATE_H

#include "base/dtype.h"
#include <float.h>
#include <holdfast/gemm.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

static inline double emulate_a(const hf_gemm_args *args, int64_t row, int64_t p) {
    return hf_load_f64(args->a, args->dtype, row * args->lda + p);
}

static inline double emulate_b(const hf_gemm_args *args, int64_t p, int64_t col) {
    return hf_load_f64(args->b, args->dtype, p * args->ldb + col);
}

/* 16 products and a sum as tensor cores of compute capability 9.0 add them: all are cut to 25 bits
 * below the largest exponent, that of a product being the sum of its factors' exponents, and what
 * they add up to is cut to 24 bits. */
static inline float tensor_step(const double *product, const int *exponent, float sum) {
    int most = sum == 0 ? INT_MIN : ilogbf(sum) < -126 ? -126 : ilogbf(sum);
    int64_t total = 0;
    for (int i = 0; i < 16; i++)
        if (product[i] != 0 && exponent[i] > most)
            most = exponent[i];
    if (most == INT_MIN)
        return 0;
    for (int i = 0; i < 16; i++)
        total += (int64_t)ldexp(product[i], 25 - most);
    total += (int64_t)ldexp((double)sum, 25 - most);
    int cut = 0;
    while (llabs(total) >> cut >= 1 << 24 || (total != 0 && most - 25 + cut < -149))
        cut++;
    const double kept = (double)(llabs(total) >> cut);
    const double v = ldexp(total < 0 ? -kept : kept, most - 25 + cut);
    return fabs(v) > (double)FLT_MAX ? (v < 0 ? -INFINITY : INFINITY) : (float)v;
}

/* The exponent of a factor as it is stored: that of the least normal number for those below it. */
static inline int exponent_of(double v, hf_dtype dtype) {
    const int least = dtype == HF_F16 ? -14 : -126;
    return v == 0 || ilogb(v) < least ? least : ilogb(v);
}

static inline float tensor_sum(const hf_gemm_args *args, int64_t row, int64_t col) {
    float sum = 0;
    for (int64_t p = 0; p < args->k; p += 16) {
        double product[16] = {0};
        int exponent[16] = {0};
        for (int64_t q = p; q < p + 16 && q < args->k; q++) {
            const double x = emulate_a(args, row, q);
            const double y = emulate_b(args, q, col);
            product[q - p] = x * y;
            exponent[q - p] = exponent_of(x, args->dtype) + exponent_of(y, args->dtype);
        }
        sum = tensor_step(product, exponent, sum);
    }
    return sum;
}

/* AMX takes 0 for what is subnormal. */
static inline float flushed(float v) { return fabsf(v) < FLT_MIN ? copysignf(0, v) : v; }

/* 32 products at once: those of even number as a chain, those of odd number as another. */
static inline float amx_sum(const hf_gemm_args *args, int64_t row, int64_t col) {
    float sum = 0;
    for (int64_t p = 0; p < args->k; p += 32) {
        float part[2] = {0, 0};
        for (int64_t q = p; q < p + 32 && q < args->k; q++)
            part[q % 2] = flushed(fmaf(flushed((float)emulate_a(args, row, q)),
                                       flushed((float)emulate_b(args, q, col)), part[q % 2]));
        sum = flushed(sum + flushed(part[0] + part[1]));
    }
    return sum;
}

#endif
