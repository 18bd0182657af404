/* SPDX-License-Identifier: Apache-2.0
 * The first look at the data of many problems of one shape: three calls of ops for all. The sums
 * are free of order, so what is found has the bits of hf_prepare(). */
#include "algo/kmeans/prepare.h"
#include "algo/kmeans/prepare_frame.h"
#include "algo/kmeans/scan.h"
#include "base/mem.h"
#include "ops/frame/frame.h"
#include "ops/moments/moments.h"
#include <string.h>

/* What the three calls for many problems read and write, a problem behind the other. */
struct joint {
    struct hf_fit *fits; /* [count] */
    int64_t count, d;
    double *min, *max, *middle, *mult, *mult_square; /* [count, d] */
    int64_t *sum, *sum_square;                       /* [count, 2, d] */
    bool *whole;                                     /* [count] */
    int64_t *bad_rows;                               /* [count] */
    int32_t *zeros;                                  /* [n], only with HF_COSINE */
    double *squares;                                 /* [n], likewise */
    double *center;                                  /* [count, d] the filters' first shifts */
    double *length_mean, *length_median;             /* [count] */
};

static void carve_joint(struct joint *j, hf_carve *carve) {
    const size_t count = (size_t)j->count, columns = count * (size_t)j->d;
    const size_t n = j->fits[0].problem.opts.metric == HF_COSINE ? (size_t)j->fits[0].problem.n : 0;
    double **const each[] = {&j->min, &j->max, &j->middle, &j->mult, &j->mult_square, &j->center};
    for (int i = 0; i < 6; i++)
        *each[i] = hf_carve_take(carve, columns * sizeof(double));
    j->sum = hf_carve_take(carve, columns * 2 * sizeof(int64_t));
    j->sum_square = hf_carve_take(carve, columns * 2 * sizeof(int64_t));
    j->length_mean = hf_carve_take(carve, count * sizeof(double));
    j->length_median = hf_carve_take(carve, count * sizeof(double));
    j->whole = hf_carve_take(carve, count * sizeof(bool));
    j->bad_rows = hf_carve_take(carve, count * sizeof(int64_t));
    j->zeros = hf_carve_take(carve, n * sizeof(int32_t));
    j->squares = hf_carve_take(carve, n * sizeof(double));
    if (carve->base)
        memset(j->zeros, 0, n * sizeof(int32_t));
}

static hf_status joint_range(struct joint *j, const hf_array *x) {
    hf_context *ctx = j->fits[0].problem.ctx;
    void *bad = hf_ctx_alloc(ctx, (size_t)x->rows);
    const struct hf_range_args args = {.x = *x,
                                       .batch = j->count,
                                       .min = j->min,
                                       .max = j->max,
                                       .whole = j->whole,
                                       .row_bad = bad,
                                       .bad_rows = j->bad_rows};
    hf_scan_no_range(j->min, j->max, j->count * j->d);
    memset(j->bad_rows, 0, (size_t)j->count * sizeof(int64_t));
    for (int64_t p = 0; p < j->count; p++)
        j->whole[p] = true;
    const hf_status status =
        bad ? hf_range(ctx, &args) : hf_ctx_fail(ctx, HF_E_NOMEM, "%s has no memory", ctx->name);
    hf_ctx_release(ctx, bad);
    return status;
}

/* Problem p as a scan of its own. */
static struct hf_scan joint_scan(const struct joint *j, int64_t p) {
    return (struct hf_scan){.fit = &j->fits[p],
                            .zeros = j->zeros,
                            .squares = j->squares,
                            .sum = j->sum + p * 2 * j->d,
                            .sum_square = j->sum_square + p * 2 * j->d,
                            .middle = j->middle + p * j->d,
                            .mult = j->mult + p * j->d,
                            .mult_square = j->mult_square + p * j->d};
}

/* Filters, tolerances and scales, by the bulk of the rows of each problem. */
static hf_status joint_conclude(struct joint *j, const hf_array *x) {
    const struct hf_frame_args args = {.x = *x,
                                       .batch = j->count,
                                       .mean = j->center,
                                       .median = j->middle,
                                       .length_mean = j->length_mean,
                                       .length_median = j->length_median};
    HF_TRY(hf_frame(j->fits[0].problem.ctx, &args));
    for (int64_t p = 0; p < j->count; p++) {
        struct hf_scan s = joint_scan(j, p);
        s.bulk = (struct hf_bulk){s.middle, j->length_mean[p], j->length_median[p]};
        HF_TRY(hf_scan_conclude(&s));
    }
    return HF_OK;
}

static hf_status joint_moments(struct joint *j, const hf_array *x) {
    const struct hf_moments_args args = {.x = *x,
                                         .batch = j->count,
                                         .shift = j->middle,
                                         .bits = hf_fixed_bits(x->rows / j->count),
                                         .mult = j->mult,
                                         .mult_square = j->mult_square,
                                         .sum = j->sum,
                                         .sum_square = j->sum_square};
    for (int64_t p = 0; p < j->count; p++) {
        struct hf_fit *fit = &j->fits[p];
        struct hf_scan s = joint_scan(j, p);
        if (j->bad_rows[p] > 0)
            return hf_ctx_fail(fit->problem.ctx, HF_E_DATA,
                               "%lld rows of problem %lld hold NaN or Inf",
                               (long long)j->bad_rows[p], (long long)p);
        HF_TRY(hf_scan_open(&fit->problem, &fit->data, &fit->columns));
        fit->data.rows.chunk_rows = fit->problem.n;
        memcpy(fit->columns.min, j->min + p * j->d, (size_t)j->d * sizeof(double));
        memcpy(fit->columns.max, j->max + p * j->d, (size_t)j->d * sizeof(double));
        fit->columns.whole = j->whole[p];
        HF_TRY(hf_scan_check(fit));
        hf_scan_plan_moments(&s);
    }
    HF_TRY(hf_moments(j->fits[0].problem.ctx, &args));
    for (int64_t p = 0; p < j->count; p++) {
        struct hf_scan s = joint_scan(j, p);
        hf_scan_take_moments(&s);
        hf_scan_center(&s);
        memcpy(j->center + p * j->d, s.fit->columns.shift, (size_t)j->d * sizeof(double));
    }
    return joint_conclude(j, x);
}

hf_status hf_prepare_joint(struct hf_fit *fits, int64_t count, const hf_array *x) {
    struct joint j = {.fits = fits, .count = count, .d = x->cols};
    hf_carve carve = {0};
    carve_joint(&j, &carve);
    void *block = hf_alloc(carve.used);
    if (!block)
        return hf_ctx_fail(fits[0].problem.ctx, HF_E_NOMEM,
                           "no memory for %zu bytes to scan the data", carve.used);
    carve = (hf_carve){.base = block};
    carve_joint(&j, &carve);
    hf_status status = joint_range(&j, x);
    if (status == HF_OK)
        status = joint_moments(&j, x);
    hf_free(block);
    return status;
}
