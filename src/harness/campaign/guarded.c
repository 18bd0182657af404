/* SPDX-License-Identifier: Apache-2.0
 * The campaign against the checks of rows and columns (hf_gemm_guarded()): bits of sums are flipped
 * before they are stored, each in a product of its own, which is checked and repaired. On a device
 * the matrices lie in its memory. */
#include "base/rng.h"
#include "base/mem.h"
#include "harness/campaign/es.h"

#include <math.h>
#include <string.h>

#define BITS 32

struct campaign {
    hf_context *ctx;
    struct es_product product;
    hf_gemm_signatures sign; /* plants the fault */
    hf_dev_dims dims;
    hf_dev_guarded_count *count;
    float *there; /* A, B and C in memory of the device; NULL: on the CPU */
};

static hf_status open_campaign(struct campaign *x) {
    const hf_dev_dims *d = &x->dims;
    const size_t a = (size_t)(d->m * d->k), b = (size_t)(d->k * d->n), c = (size_t)(d->m * d->n);
    HF_TRY(hf_es_product(x->ctx, x->dims, &x->product));
    if (hf_ctx_is_host(x->ctx))
        return HF_OK;
    x->there = hf_ctx_alloc(x->ctx, (a + b + c) * sizeof *x->there);
    if (x->there == NULL)
        return hf_ctx_fail(x->ctx, HF_E_NOMEM, "no memory for the matrices of a campaign");
    x->product.args.a = x->there;
    x->product.args.b = x->there + a;
    x->product.args.c = x->there + a + b;
    HF_TRY(hf_ctx_copy(x->ctx, x->there, x->product.p.a, a * sizeof *x->there));
    return hf_ctx_copy(x->ctx, x->there + a, x->product.p.b, b * sizeof *x->there);
}

static void close_campaign(struct campaign *x) {
    hf_ctx_release(x->ctx, x->there);
    hf_es_product_clear(&x->product);
}

static hf_status fetch(const struct campaign *x) {
    return x->there ? hf_ctx_copy(x->ctx, x->product.p.c, x->product.args.c, x->product.bytes)
                    : HF_OK;
}

static double length(const float *x, int64_t count, int64_t step) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i * step] * (double)x[i * step];
    return sqrt(sum);
}

/* What was left of the fault in element `at`, in units of the most that rounding may move it. */
static double size_left(const struct campaign *x, int64_t at) {
    const int64_t i = at / x->dims.n, j = at % x->dims.n;
    const double bound = x->product.report.error *
                             length(x->product.p.a + i * x->dims.k, x->dims.k, 1) *
                             length(x->product.p.b + j, x->dims.k, x->dims.n) +
                         x->product.report.tiny;
    const double error = fabs((double)x->product.p.c[at] - (double)x->product.plain[at]);
    return isnan(error) ? INFINITY : error / bound;
}

static hf_status flip(struct campaign *x, int64_t at, int bit) {
    hf_gemm_faults faults;
    hf_dev_guarded_count *const n = x->count;
    x->sign.plant = HF_GEMM_PLANT_SUM;
    x->sign.plant_at = at * BITS + bit;
    const hf_status status =
        hf_gemm_guarded(x->ctx, &x->product.args, HF_GUARD_CORRECT, &faults, NULL);
    if (status != HF_OK && status != HF_E_CORRUPT)
        return status;
    HF_TRY(fetch(x));
    n->faults++;
    if (status == HF_E_CORRUPT) {
        n->failed++;
    } else if (memcmp(x->product.p.c, x->product.plain, x->product.bytes) == 0) {
        n->repaired++;
    } else {
        n->left++;
        n->worst_left = fmax(n->worst_left, size_left(x, at));
    }
    return HF_OK;
}

/* Places are those of a permutation, so none comes twice. */
static hf_status count_all(struct campaign *x, int64_t places) {
    hf_gemm_faults faults;
    const int64_t elements = x->dims.m * x->dims.n;
    HF_TRY(hf_gemm_guarded(x->ctx, &x->product.args, HF_GUARD_CORRECT, &faults, NULL));
    x->count->false_alarms = faults.confirmed;
    x->count->suspected = faults.suspected;
    x->product.args.signatures = &x->sign;
    for (int64_t i = 0; i < hf_min64(places, elements); i++) {
        const int64_t at = (int64_t)hf_rng_permute(1, 0, (uint64_t)elements, (uint64_t)i);
        for (int bit = 0; bit < BITS; bit++)
            HF_TRY(flip(x, at, bit));
    }
    return HF_OK;
}

hf_status hf_dev_guarded_count_bits(hf_context *ctx, hf_dev_dims dims, int64_t places,
                                    hf_dev_guarded_count *count) {
    struct campaign x = {.ctx = ctx, .dims = dims, .count = count};
    *count = (hf_dev_guarded_count){0};
    hf_status status = open_campaign(&x);
    if (status == HF_OK)
        status = count_all(&x, places);
    close_campaign(&x);
    return status;
}

static hf_status call_once(void *user, bool protected) {
    struct campaign *x = user;
    return hf_gemm_guarded(x->ctx, &x->product.args, protected ? HF_GUARD_CORRECT : HF_GUARD_OFF,
                           NULL, NULL);
}

hf_status hf_dev_guarded_time(hf_context *ctx, hf_dev_dims dims, double budget_s,
                              hf_dev_es_timing *timing) {
    struct campaign x = {.ctx = ctx, .dims = dims};
    hf_status status = open_campaign(&x);
    if (status == HF_OK)
        status = hf_es_turns(ctx, call_once, &x, budget_s, timing);
    close_campaign(&x);
    return status;
}
