/* SPDX-License-Identifier: Apache-2.0
 * The campaign against the checks of rows and columns (hf_gemm_guarded()): bits of sums are flipped
 * before they are stored, each in a product of its own, which is checked and repaired. On a device
 * the matrices lie in its memory. */
#include "algo/matmul/gemm_check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "guard/gemm_lines.h"
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
    float *there;               /* A, B and C in memory of the device; NULL: on the CPU */
    struct hf_sums_line *lines; /* [m + n] */
    struct hf_sums_bound bound; /* of their sums */
};

static hf_status open_campaign(struct campaign *x) {
    const hf_dev_dims *d = &x->dims;
    const size_t a = (size_t)(d->m * d->k), b = (size_t)(d->k * d->n), c = (size_t)(d->m * d->n);
    HF_TRY(hf_es_product(x->ctx, x->dims, HF_F32, &x->product));
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
    hf_free(x->lines);
    hf_es_product_clear(&x->product);
}

static hf_status fetch(const struct campaign *x) {
    return x->there ? hf_ctx_copy(x->ctx, x->product.p.c, x->product.args.c, x->product.bytes)
                    : HF_OK;
}

/* What the operands make of the lines of C, in float64: of m rows, then of n columns. */
static hf_status sum_lines(struct campaign *x) {
    const hf_dev_dims *d = &x->dims;
    const float *a = x->product.p.a, *b = x->product.p.b;
    x->lines = hf_alloc_zero((size_t)(d->m + d->n) * sizeof *x->lines);
    if (x->lines == NULL)
        return hf_ctx_fail(x->ctx, HF_E_NOMEM, "no memory for the lines of a campaign");
    for (int64_t p = 0; p < d->k; p++) {
        double col = 0, col_size = 0, row = 0, row_size = 0;
        for (int64_t i = 0; i < d->m; i++) {
            col += (double)a[i * d->k + p];
            col_size += fabs((double)a[i * d->k + p]);
        }
        for (int64_t j = 0; j < d->n; j++) {
            struct hf_sums_line *const line = &x->lines[d->m + j];
            row += (double)b[p * d->n + j];
            row_size += fabs((double)b[p * d->n + j]);
            line->want += col * (double)b[p * d->n + j];
            line->want_size += col_size * fabs((double)b[p * d->n + j]);
        }
        for (int64_t i = 0; i < d->m; i++) {
            x->lines[i].want += (double)a[i * d->k + p] * row;
            x->lines[i].want_size += fabs((double)a[i * d->k + p]) * row_size;
        }
    }
    return HF_OK;
}

/* How far the sum of a line of C is off, in units of its bound. */
static double line_off(const struct campaign *x, struct hf_sums_line line, const float *c,
                       int64_t count, int64_t step) {
    double size;
    for (int64_t i = 0; i < count; i++) {
        line.found += (double)c[i * step];
        line.found_size += fabs((double)c[i * step]);
    }
    const double off = fabs(line.found - hf_sums_wanted(&x->bound, line, &size)) /
                       hf_sums_most(&x->bound, count, line);
    return isnan(off) ? INFINITY : off;
}

/* What was left of the fault in element `at`. */
static double size_left(const struct campaign *x, int64_t at) {
    const int64_t n = x->dims.n, i = at / n, j = at % n;
    const float *c = x->product.p.c;
    return fmax(line_off(x, x->lines[i], c + i * n, n, 1),
                line_off(x, x->lines[x->dims.m + j], c + j, x->dims.m, n));
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
        const double off = size_left(x, at);
        n->left++;
        n->consequential += off > 1;
        n->worst_left = fmax(n->worst_left, off);
    }
    return HF_OK;
}

/* Places are those of a permutation, so none comes twice. */
static hf_status count_all(struct campaign *x, int64_t places) {
    hf_gemm_faults faults;
    hf_gemm_args full;
    const int64_t elements = x->dims.m * x->dims.n;
    HF_TRY(hf_gemm_guarded(x->ctx, &x->product.args, HF_GUARD_CORRECT, &faults, NULL));
    HF_TRY(sum_lines(x));
    HF_TRY(hf_gemm_check(x->ctx, &x->product.args, &full));
    x->bound = hf_gemm_lines_bound(x->ctx, &full, x->there != NULL);
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
