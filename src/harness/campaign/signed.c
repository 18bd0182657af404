/* SPDX-License-Identifier: Apache-2.0
 * Campaigns against products of op gemm with signatures. A product takes microseconds, so that each
 * fault gets one. */
#include "base/dtype.h"
#include "harness/campaign/es.h"

#include <string.h>

const char *hf_dev_signed_kind_name(int i) {
    static const char *const names[HF_DEV_SIGNED_KINDS] = {"carry", "address", "stuck", "dropped"};
    return i >= 0 && i < HF_DEV_SIGNED_KINDS ? names[i] : NULL;
}

struct campaign {
    hf_context *ctx;
    struct es_product product;
    hf_gemm_signatures sign, good;
    hf_dev_dims dims;
    int64_t every;
    hf_dev_signed_count *count;
};

static bool seen(const struct campaign *x) {
    return x->sign.a != x->good.a || x->sign.b != x->good.b || x->sign.c != x->good.c ||
           x->sign.panels != x->good.panels || x->sign.tiles != x->good.tiles;
}

/* Flip each bit of an operand in memory. */
static hf_status flip_operand(struct campaign *x, void *operand, int64_t elements) {
    const int64_t bits = 8 * elements * (int64_t)hf_dtype_bytes(x->product.args.dtype);
    for (int64_t bit = 0; bit < bits; bit += x->every) {
        hf_es_flip(operand, bit);
        HF_TRY(hf_gemm(x->ctx, &x->product.args, NULL));
        hf_es_flip(operand, bit);
        x->count->operand_faults++;
        x->count->operand_detected += seen(x);
        x->count->changed += memcmp(x->product.p.c, x->product.plain, x->product.bytes) != 0;
    }
    return HF_OK;
}

static hf_status plant_sums(struct campaign *x) {
    x->sign.plant = HF_GEMM_PLANT_SUM;
    for (int64_t bit = 0; bit < 32 * x->dims.m * x->dims.n; bit += x->every) {
        x->sign.plant_at = bit;
        HF_TRY(hf_gemm(x->ctx, &x->product.args, NULL));
        x->count->sum_faults++;
        x->count->sum_detected += seen(x);
    }
    x->sign.plant = HF_GEMM_PLANT_NONE;
    return HF_OK;
}

static hf_status plant_staged(struct campaign *x) {
    x->sign.plant = HF_GEMM_PLANT_A;
    for (int64_t bit = 0; x->sign.release && bit < 32 * x->dims.m * x->dims.k; bit += x->every) {
        x->sign.plant_at = bit;
        const hf_status status = hf_gemm(x->ctx, &x->product.args, NULL);
        if (status != HF_OK && status != HF_E_CORRUPT)
            return status;
        x->count->staged_faults++;
        x->count->staged_detected += status == HF_E_CORRUPT;
    }
    x->sign.plant = HF_GEMM_PLANT_NONE;
    return HF_OK;
}

/* Faults of a kind, in C as it was before: a tile that is not computed must not look right. */
static hf_status plant_kind(struct campaign *x, hf_gemm_plant kind, int64_t elements) {
    hf_dev_signed_kind *const k = &x->count->kind[kind - HF_GEMM_PLANT_CARRY];
    x->sign.plant = kind;
    for (int64_t bit = 0; bit < 32 * elements; bit += x->every) {
        x->sign.plant_at = bit;
        memset(x->product.p.c, 0, x->product.bytes);
        const hf_status status = hf_gemm(x->ctx, &x->product.args, NULL);
        if (status != HF_OK && status != HF_E_CORRUPT)
            return status;
        const bool changed = memcmp(x->product.p.c, x->product.plain, x->product.bytes) != 0;
        k->faults++;
        k->changed += changed;
        k->detected += changed && (status == HF_E_CORRUPT || seen(x));
    }
    x->sign.plant = HF_GEMM_PLANT_NONE;
    return HF_OK;
}

static hf_status count_all(struct campaign *x) {
    const int64_t a = x->dims.m * x->dims.k, c = x->dims.m * x->dims.n;
    x->product.args.signatures = &x->sign;
    HF_TRY(hf_gemm(x->ctx, &x->product.args, NULL));
    x->good = x->sign;
    x->count->same = memcmp(x->product.p.c, x->product.plain, x->product.bytes) == 0;
    HF_TRY(flip_operand(x, x->product.p.a, a));
    HF_TRY(flip_operand(x, x->product.p.b, x->dims.k * x->dims.n));
    HF_TRY(plant_sums(x));
    HF_TRY(plant_staged(x));
    HF_TRY(plant_kind(x, HF_GEMM_PLANT_CARRY, c));
    HF_TRY(plant_kind(x, HF_GEMM_PLANT_ADDRESS, a));
    HF_TRY(plant_kind(x, HF_GEMM_PLANT_STUCK, a));
    return plant_kind(x, HF_GEMM_PLANT_DROPPED, c);
}

hf_status hf_dev_signed_count_bits(hf_context *ctx, const hf_dev_signed *how, hf_dev_dims dims,
                                   int64_t every, hf_dev_signed_count *count) {
    struct campaign x = {.ctx = ctx,
                         .sign = {.checksum = how->checksum, .release = how->release},
                         .dims = dims,
                         .every = every > 0 ? every : 1,
                         .count = count};
    *count = (hf_dev_signed_count){0};
    hf_status status = hf_es_product(ctx, dims, how->dtype, &x.product);
    if (status == HF_OK)
        status = hf_ctx_is_host(ctx)
                     ? count_all(&x)
                     : hf_es_signed_batches(ctx, &x.product, &x.sign, x.every, count);
    hf_es_product_clear(&x.product);
    return status;
}

static hf_status call_once(void *user, bool protected) {
    struct campaign *x = user;
    x->product.args.signatures = protected ? &x->sign : NULL;
    return hf_gemm(x->ctx, &x->product.args, NULL);
}

hf_status hf_dev_signed_time(hf_context *ctx, const hf_dev_signed *how, hf_dev_dims dims,
                             double budget_s, hf_dev_es_timing *timing) {
    struct campaign x = {
        .ctx = ctx, .sign = {.checksum = how->checksum, .release = how->release}, .dims = dims};
    hf_status status = hf_es_product(ctx, dims, how->dtype, &x.product);
    if (status == HF_OK)
        status = hf_es_turns(ctx, call_once, &x, budget_s, timing);
    hf_es_product_clear(&x.product);
    return status;
}
