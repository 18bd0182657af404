/* SPDX-License-Identifier: Apache-2.0 */
#include "device/host/isa.h"
#include "base/mem.h"
#include "ops/assign/assign.h"

#define KEPT_TILE 32                     /* rows come in tiles of at most so many, */
#define KEPT_STEP 32                     /* features in steps of so many, */
#define KEPT_FEATURE 4                   /* bytes: float32, or two bf16 parts */
#define KEPT_BESIDE 12                   /* bytes of a row: three float32 */
#define SWEEP_MORE 16                    /* centroids: the last group of a sweep is half empty */
#define SWEEP_BOUNDS 1000                /* units: making the bounds that a sweep needs */
#define FUSED_BYTES ((int64_t)512 << 10) /* sums up to this size stay in cache */

bool hf_assign_keeps(const hf_context *ctx) { return hf_ctx_is_host(ctx); }

bool hf_assign_fuses(const hf_context *ctx, const struct hf_sums *sums) {
    return hf_ctx_is_host(ctx) &&
           sums->k * sums->d * sums->limbs <= FUSED_BYTES / (int64_t)sizeof(int64_t);
}

size_t hf_assign_kept_bytes(int64_t n, int64_t d) {
    const int64_t rows = (n + KEPT_TILE - 1) / KEPT_TILE * KEPT_TILE;
    const int64_t row = (d + KEPT_STEP - 1) / KEPT_STEP * KEPT_STEP * KEPT_FEATURE + KEPT_BESIDE;
    size_t bytes;
    if (!(hf_cpu_isas() & ~(uint32_t)(1 << HF_ISA_ID_scalar)) || !hf_mul_size(rows, row, &bytes))
        return 0;
    return bytes;
}

/* What steps of a row cost, in units of 0.009 ns on one core of about 3.3 GHz. */
struct prices {
    double bounds; /* testing them, */
    double pack;   /* packing the row again where they do not settle it, */
    double all;    /* and all centroids */
    double one;    /* centroid */
    double read;   /* reading the row as it is kept */
};

static struct prices prices_of(int64_t k, int64_t d) {
    const double features = (double)d;
    struct prices p = {.bounds = 1000 + 20 * features,
                       .pack = 500 + 40 * features,
                       .one = 2.4 * features + 14,
                       .read = 1000 + 20 * features};
#if defined(HF_HAVE_ISA_avx512)
    if (hf_cpu_isas() >> HF_ISA_ID_avx512 & 1)
        p.one = 0.5 * features + 10;
#endif
#if defined(HF_HAVE_ISA_amx)
    if (hf_cpu_isas() >> HF_ISA_ID_amx & 1)
        p.one = 0.15 * features + 8;
#endif
    p.all = (double)k * p.one;
    return p;
}

/* Kept rows only help where all are looked at: a row that bounds do not settle is packed again. */
double hf_assign_kept_share(int64_t k, int64_t d, int64_t look) {
    const struct prices p = prices_of(k, d);
    const double without = look < k ? p.read + (double)look * p.one : p.all;
    return 1 - (without - p.bounds) / (p.pack + p.all);
}

double hf_assign_sweep_share(int64_t k, int64_t d, int64_t moved) {
    const struct prices p = prices_of(k, d);
    const double saved = (double)(k - moved - SWEEP_MORE) * p.one - SWEEP_BOUNDS;
    return 1 - saved / (p.pack + p.all);
}

double hf_assign_kept_partial(int64_t k, int64_t d) {
    const struct prices p = prices_of(k, d);
    return p.all / (p.pack + p.all);
}

static void assign_key(const void *args, struct hf_key *key) {
    const struct hf_assign_args *a = args;
    *key = (struct hf_key){.dtype = {a->x.dtype}, .dim = {a->x.rows, a->c.rows, a->x.cols}};
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

/* What is not exact takes the answer of the kernel's own filter. */
static bool assign_unanimous(const void *args) {
    return ((const struct hf_assign_args *)args)->exact;
}

const struct hf_op hf_assign_op = {
    .name = "assign",
    .args_size = sizeof(struct hf_assign_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = assign_key,
    .cost = assign_cost,
    .unanimous = assign_unanimous,
};
