/* SPDX-License-Identifier: Apache-2.0
 * Protection of the first passes over the rows: scales and limits of all that follows come from
 * their ranges and moments, so other kernels compute these again while the rows are in the caches;
 * and the rows are signed, so that a word of them that changes from here on is noticed. */
#include "algo/kmeans/guard/device_scan.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/scan.h"
#include "base/mem.h"
#include "core/array.h"
#include "guard/guard.h"
#include <math.h>
#include <string.h>

#define ATTEMPTS 3

static bool is_checked(const struct hf_fit *fit) {
    return hf_guard_checks(fit->problem.ctx, HF_FAULT_STATE);
}

void hf_scan_carve_again(struct hf_scan *s, hf_carve *carve, int64_t chunk) {
    const size_t columns = (size_t)s->fit->problem.d * sizeof(double);
    struct hf_range_args *a = &s->again;
    if (!is_checked(s->fit))
        return;
    a->min = hf_carve_take(carve, columns);
    a->max = hf_carve_take(carve, columns);
    a->sums = hf_range_sums(s->fit->problem.ctx) ? hf_carve_take(carve, 2 * columns) : NULL;
    const bool host = hf_ctx_is_host(s->fit->problem.ctx);
    a->row_bad = hf_carve_take(carve, host ? (size_t)chunk : 1);
    s->moments_before = hf_carve_take(carve, 4 * columns);
    s->moments_again = host ? NULL : hf_carve_take(carve, 4 * columns);
}

void hf_scan_begin_ranges(struct hf_scan *s) {
    const int64_t d = s->fit->problem.d;
    s->fit->ledger.rows = 0;
    s->fit->ledger.rows_signed = s->again.min != NULL;
    if (!s->again.min)
        return;
    hf_scan_no_range(s->again.min, s->again.max, d);
    if (s->again.sums)
        memset(s->again.sums, 0, (size_t)d * 2 * sizeof(double));
    s->differ = false;
    s->whole_again = true;
    s->bad_rows_again = 0;
    s->again.whole = &s->whole_again;
    s->again.bad_rows = &s->bad_rows_again;
}

static hf_status differ(struct hf_scan *s) {
    hf_context *ctx = s->fit->problem.ctx;
    s->rows_before = s->fit->ledger.rows;
    s->failed = true;
    hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "the ranges of the columns came out twice differently: the machine computes "
                       "wrongly; run it again, and if that fails too, on another machine");
}

/* Rows [at, at + count) of a panel. */
static hf_status range_rows(struct hf_scan *s, const hf_array *panel, int64_t at, int64_t count) {
    hf_context *ctx = s->fit->problem.ctx;
    struct hf_range_args args = s->range;
    args.x = hf_array_slice(panel, at, count);
    args.row_bad = s->range.row_bad + at;
    HF_TRY(hf_run(ctx, HF_OP_RANGE, &args));
    if (!s->again.min)
        return HF_OK;
    const struct hf_kernel *kernel = ctx->last_kernel[HF_OP_RANGE];
    struct hf_range_args again = s->again;
    again.x = args.x;
    again.row_bad = s->again.row_bad + at;
    return hf_run_kernel(ctx, HF_OP_RANGE, hf_guard_twin(ctx, HF_OP_RANGE, kernel, &again), &again);
}

hf_status hf_scan_ranges(struct hf_scan *s, const hf_array *panel, int64_t first) {
    hf_context *ctx = s->fit->problem.ctx;
    if (s->again.min && !hf_ctx_is_host(ctx)) {
        HF_TRY(hf_device_scan_ranges(s, panel));
        return s->differ ? differ(s) : HF_OK;
    }
    const int64_t most = s->again.min ? hf_cached_rows(ctx, panel) : panel->rows;
    for (int64_t at = 0; at < panel->rows; at += most) {
        const int64_t count = hf_min64(most, panel->rows - at);
        const hf_array rows = hf_array_slice(panel, at, count);
        if (s->again.min)
            s->fit->ledger.rows += hf_guard_sign_rows(hf_ctx_pool(ctx), &rows, first + at);
        HF_TRY(range_rows(s, panel, at, count));
    }
    /* all rows are signed before the pass fails */
    if (s->again.min && memcmp(s->bad, s->again.row_bad, (size_t)panel->rows) != 0)
        s->differ = true;
    return HF_OK;
}

/* Sums of whole numbers are exact, and used, below 2^51 only. */
static bool same_sums(const struct hf_scan *s) {
    const int64_t d = s->fit->problem.d;
    const double *a = s->range.sums;
    const double *b = s->again.sums;
    bool same = true;
    for (int64_t f = 0; a && *s->range.whole && f < d; f++) {
        const double largest = fmax(fabs(s->range.min[f]), fabs(s->range.max[f]));
        if (largest * largest * (double)s->fit->problem.n_all < 0x1p51)
            same &= !(a[f] < b[f] || a[f] > b[f] || a[d + f] < b[d + f] || a[d + f] > b[d + f]);
    }
    return same;
}

hf_status hf_scan_compare_ranges(struct hf_scan *s) {
    const struct hf_range_args *a = &s->range;
    const struct hf_range_args *b = &s->again;
    const size_t columns = (size_t)s->fit->problem.d * sizeof(double);
    if (!b->min)
        return HF_OK;
    s->fit->ledger.rows_signed &= s->dropped == 0; /* else later passes see other rows */
    hf_guard_checked(s->fit->problem.ctx, HF_FAULT_STATE, s->fit->problem.d);
    const bool same = !s->differ && memcmp(a->min, b->min, columns) == 0 &&
                      memcmp(a->max, b->max, columns) == 0 && *a->whole == *b->whole &&
                      *a->bad_rows == *b->bad_rows && same_sums(s);
    return same ? HF_OK : differ(s);
}

/* Ranges that differed may be those of rows that changed between both looks: then a pass that
 * succeeds has read other rows, and what they were is not known any more. */
static hf_status check_rows(struct hf_scan *s) {
    hf_context *ctx = s->fit->problem.ctx;
    if (!s->failed || s->fit->ledger.rows == s->rows_before)
        return HF_OK;
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "rows changed while they were first read: the machine or a program writes "
                       "where it must not; load the data again");
}

hf_status hf_scan_attempts(struct hf_scan *s, hf_status (*pass)(struct hf_scan *s)) {
    hf_context *ctx = s->fit->problem.ctx;
    hf_status status = pass(s);
    int failed = 0;
    while (failed + 1 < ATTEMPTS && s->again.min && hf_guard_retries(ctx, status)) {
        failed++;
        status = pass(s);
    }
    if (status == HF_OK || (status == HF_E_DATA && failed > 0)) {
        const hf_status rows = check_rows(s);
        status = rows == HF_OK ? status : rows;
    }
    if (status == HF_OK && failed > 0)
        hf_guard_repaired(ctx, failed > 1 ? HF_FAULT_INTERMITTENT : HF_FAULT_TRANSIENT, 0);
    return status;
}

/* A slice of rows, added to what the sums were before. */
struct moments_twice {
    struct hf_scan *s;
    struct hf_moments_args args;
};

static size_t moments_bytes(const struct hf_scan *s) {
    return 4 * (size_t)s->fit->problem.d * sizeof(int64_t);
}

static hf_status run_moments(void *user, int turn) {
    const struct moments_twice *t = user;
    hf_context *ctx = t->s->fit->problem.ctx;
    memcpy(t->s->sum, t->s->moments_before, moments_bytes(t->s));
    if (turn % 2 == 0)
        return hf_run(ctx, HF_OP_MOMENTS, &t->args);
    const struct hf_kernel *kernel = ctx->last_kernel[HF_OP_MOMENTS];
    return hf_run_kernel(ctx, HF_OP_MOMENTS, hf_guard_twin(ctx, HF_OP_MOMENTS, kernel, &t->args),
                         &t->args);
}

static uint64_t sign_moments(const void *user) {
    const struct moments_twice *t = user;
    return hf_guard_sign(t->s->sum, moments_bytes(t->s));
}

hf_status hf_scan_moments(struct hf_scan *s, const struct hf_moments_args *args) {
    static const struct hf_repeated work = {.fault = HF_FAULT_STATE,
                                            .run = run_moments,
                                            .sign = sign_moments,
                                            .what = "the moments of the columns"};
    hf_context *ctx = s->fit->problem.ctx;
    if (!s->moments_before)
        return hf_run(ctx, HF_OP_MOMENTS, args);
    if (!hf_ctx_is_host(ctx))
        return hf_device_scan_moments(s, args);
    const int64_t most = hf_cached_rows(ctx, &args->x);
    for (int64_t at = 0; at < args->x.rows; at += most) {
        struct moments_twice t = {s, *args};
        t.args.x = hf_array_slice(&args->x, at, hf_min64(most, args->x.rows - at));
        memcpy(s->moments_before, s->sum, moments_bytes(s));
        HF_TRY(hf_guard_repeat(ctx, &work, &t));
    }
    return HF_OK;
}
