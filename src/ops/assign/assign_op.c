/* SPDX-License-Identifier: Apache-2.0 */
#include "device/host/isa.h"
#include "base/mem.h"
#include "ops/assign/assign.h"

#define KEPT_TILE 32   /* rows come in tiles of at most so many, */
#define KEPT_STEP 32   /* features in steps of so many, */
#define KEPT_FEATURE 4 /* bytes: float32, or two bf16 parts */
#define KEPT_BESIDE 12 /* bytes of a row: three float32 */

size_t hf_assign_kept_bytes(int64_t n, int64_t d) {
    const int64_t rows = (n + KEPT_TILE - 1) / KEPT_TILE * KEPT_TILE;
    const int64_t row = (d + KEPT_STEP - 1) / KEPT_STEP * KEPT_STEP * KEPT_FEATURE + KEPT_BESIDE;
    size_t bytes;
    if (!(hf_cpu_isas() & ~(uint32_t)(1 << HF_ISA_ID_scalar)) || !hf_mul_size(rows, row, &bytes))
        return 0;
    return bytes;
}

/* Kept rows only help where all are looked at: a row that bounds do not settle is packed again.
 * In units of 0.009 ns on one core of about 3.3 GHz. */
double hf_assign_kept_share(int64_t k, int64_t d) {
    const double features = (double)d;
    const double bounds = 1000 + 20 * features;
    const double pack = 500 + 40 * features;
    double centroid = 2.4 * features + 14;
#if defined(HF_HAVE_ISA_avx512)
    if (hf_cpu_isas() >> HF_ISA_ID_avx512 & 1)
        centroid = 0.5 * features + 10;
#endif
#if defined(HF_HAVE_ISA_amx)
    if (hf_cpu_isas() >> HF_ISA_ID_amx & 1)
        centroid = 0.15 * features + 8;
#endif
    return (bounds + pack) / ((double)k * centroid + pack);
}

static void assign_key(const void *args, struct hf_key *key) {
    const struct hf_assign_args *a = args;
    key->dtype = a->x.dtype;
    key->n = a->x.rows;
    key->k = a->c.rows;
    key->d = a->x.cols;
}

static void assign_cost(const void *args, double *flops, double *bytes) {
    const struct hf_assign_args *a = args;
    const double n = (double)a->x.rows;
    const double k = (double)a->c.rows;
    const double d = (double)a->x.cols;
    *flops = 2.0 * n * k * d;
    *bytes = n * d * (double)hf_dtype_bytes(a->x.dtype) + 4.0 * n +
             k * d * (double)hf_dtype_bytes(a->c.dtype);
}

const struct hf_op hf_assign_op = {
    .name = "assign",
    .args_size = sizeof(struct hf_assign_args),
    .key = assign_key,
    .cost = assign_cost,
};
