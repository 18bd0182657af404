/* SPDX-License-Identifier: Apache-2.0
 * Campaigns against products of op gemm with signatures. A product takes microseconds, so that each
 * fault gets one. */
#include "base/clock.h"
#include "base/mem.h"
#include "harness/campaign/es.h"
#include <holdfast/gemm.h>

#include <string.h>

struct campaign {
    hf_context *ctx;
    hf_gemm_args args;
    hf_gemm_signatures sign, good;
    float *a, *b, *c, *plain;
    hf_dev_dims dims;
    int64_t every;
    hf_dev_signed_count *count;
};

static bool seen(const struct campaign *x) {
    return x->sign.a != x->good.a || x->sign.b != x->good.b || x->sign.c != x->good.c ||
           x->sign.panels != x->good.panels || x->sign.tiles != x->good.tiles;
}

static size_t c_bytes(const struct campaign *x) {
    return (size_t)(x->dims.m * x->dims.n) * sizeof *x->c;
}

/* Flip each bit of an operand in memory. */
static hf_status flip_operand(struct campaign *x, float *operand, int64_t elements) {
    for (int64_t bit = 0; bit < 32 * elements; bit += x->every) {
        uint32_t word;
        memcpy(&word, operand + bit / 32, sizeof word);
        word ^= 1u << bit % 32;
        memcpy(operand + bit / 32, &word, sizeof word);
        HF_TRY(hf_gemm(x->ctx, &x->args, NULL));
        word ^= 1u << bit % 32;
        memcpy(operand + bit / 32, &word, sizeof word);
        x->count->operand_faults++;
        x->count->operand_detected += seen(x);
        x->count->changed += memcmp(x->c, x->plain, c_bytes(x)) != 0;
    }
    return HF_OK;
}

static hf_status plant_sums(struct campaign *x) {
    x->sign.plant = HF_GEMM_PLANT_SUM;
    for (int64_t bit = 0; bit < 32 * x->dims.m * x->dims.n; bit += x->every) {
        x->sign.plant_at = bit;
        HF_TRY(hf_gemm(x->ctx, &x->args, NULL));
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
        const hf_status status = hf_gemm(x->ctx, &x->args, NULL);
        if (status != HF_OK && status != HF_E_CORRUPT)
            return status;
        x->count->staged_faults++;
        x->count->staged_detected += status == HF_E_CORRUPT;
    }
    x->sign.plant = HF_GEMM_PLANT_NONE;
    return HF_OK;
}

static hf_status count_all(struct campaign *x) {
    x->args.signatures = NULL;
    x->args.c = x->plain;
    HF_TRY(hf_gemm(x->ctx, &x->args, NULL));
    x->args.signatures = &x->sign;
    x->args.c = x->c;
    HF_TRY(hf_gemm(x->ctx, &x->args, NULL));
    x->good = x->sign;
    x->count->same = memcmp(x->c, x->plain, c_bytes(x)) == 0;
    HF_TRY(flip_operand(x, x->a, x->dims.m * x->dims.k));
    HF_TRY(flip_operand(x, x->b, x->dims.k * x->dims.n));
    HF_TRY(plant_sums(x));
    return plant_staged(x);
}

/* The matrices are those of the other campaigns. */
static hf_status prepare(struct campaign *x, struct es_problem *p) {
    const hf_dev_es none = {.level = HF_DEV_ES_NONE};
    HF_TRY(hf_es_problem(x->ctx, &none, x->dims, 1, p));
    x->a = p->a;
    x->b = p->b;
    x->c = p->c;
    x->plain = hf_alloc(c_bytes(x));
    if (!x->plain)
        return hf_ctx_fail(x->ctx, HF_E_NOMEM, "no memory for the matrices of a campaign");
    x->args = (hf_gemm_args){.m = x->dims.m,
                             .n = x->dims.n,
                             .k = x->dims.k,
                             .dtype = HF_F32,
                             .alpha = 1,
                             .a = x->a,
                             .b = x->b,
                             .c = x->c,
                             .signatures = &x->sign};
    return HF_OK;
}

hf_status hf_dev_signed_count_bits(hf_context *ctx, const char *checksum, int release,
                                   hf_dev_dims dims, int64_t every, hf_dev_signed_count *count) {
    struct es_problem p = {.a = NULL};
    struct campaign x = {.ctx = ctx,
                         .sign = {.checksum = checksum, .release = release},
                         .dims = dims,
                         .every = every > 0 ? every : 1,
                         .count = count};
    *count = (hf_dev_signed_count){0};
    hf_status status = prepare(&x, &p);
    if (status == HF_OK)
        status = count_all(&x);
    hf_free(x.plain);
    hf_es_problem_clear(&p);
    return status;
}

static hf_status call_once(void *user, bool protected) {
    struct campaign *x = user;
    x->args.signatures = protected ? &x->sign : NULL;
    return hf_gemm(x->ctx, &x->args, NULL);
}

hf_status hf_dev_signed_time(hf_context *ctx, const char *checksum, int release, hf_dev_dims dims,
                             double budget_s, hf_dev_es_timing *timing) {
    struct es_problem p = {.a = NULL};
    struct campaign x = {
        .ctx = ctx, .sign = {.checksum = checksum, .release = release}, .dims = dims};
    hf_status status = prepare(&x, &p);
    if (status == HF_OK)
        status = hf_es_turns(call_once, &x, budget_s, timing);
    hf_free(x.plain);
    hf_es_problem_clear(&p);
    return status;
}
