/* SPDX-License-Identifier: Apache-2.0
 * Protection of the first pass over the rows: scales and limits of all that follows come from their
 * ranges, so another kernel computes these again while the rows are in the caches; and the rows are
 * signed, so that a word of them that changes from here on is noticed. */
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/scan.h"
#include "base/mem.h"
#include "core/array.h"
#include "guard/guard.h"
#include <math.h>
#include <string.h>

#define ATTEMPTS 3

static bool is_checked(const struct hf_fit *fit) {
    const hf_context *ctx = fit->problem.ctx;
    return hf_ctx_is_host(ctx) && hf_guard_checks(ctx, HF_FAULT_STATE);
}

void hf_scan_carve_again(struct hf_scan *s, hf_carve *carve, int64_t chunk) {
    const size_t columns = (size_t)s->fit->problem.d * sizeof(double);
    struct hf_range_args *a = &s->again;
    if (!is_checked(s->fit))
        return;
    a->min = hf_carve_take(carve, columns);
    a->max = hf_carve_take(carve, columns);
    a->sums = hf_range_sums(s->fit->problem.ctx) ? hf_carve_take(carve, 2 * columns) : NULL;
    a->row_bad = hf_carve_take(carve, (size_t)chunk);
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
    s->whole_again = true;
    s->bad_rows_again = 0;
    s->again.whole = &s->whole_again;
    s->again.bad_rows = &s->bad_rows_again;
}

static hf_status differ(struct hf_scan *s) {
    hf_context *ctx = s->fit->problem.ctx;
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
    const int64_t most = s->again.min ? hf_cached_rows(ctx, panel) : panel->rows;
    for (int64_t at = 0; at < panel->rows; at += most) {
        const int64_t count = hf_min64(most, panel->rows - at);
        const hf_array rows = hf_array_slice(panel, at, count);
        if (s->again.min)
            s->fit->ledger.rows += hf_guard_sign_rows(hf_ctx_pool(ctx), &rows, first + at);
        HF_TRY(range_rows(s, panel, at, count));
    }
    if (s->again.min && memcmp(s->bad, s->again.row_bad, (size_t)panel->rows) != 0)
        return differ(s);
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
    s->fit->ledger.rows_signed = s->dropped == 0; /* else later passes see other rows */
    hf_guard_checked(s->fit->problem.ctx, HF_FAULT_STATE, s->fit->problem.d);
    const bool same = memcmp(a->min, b->min, columns) == 0 &&
                      memcmp(a->max, b->max, columns) == 0 && *a->whole == *b->whole &&
                      *a->bad_rows == *b->bad_rows && same_sums(s);
    return same ? HF_OK : differ(s);
}

hf_status hf_scan_attempts(struct hf_scan *s, hf_status (*pass)(struct hf_scan *s)) {
    hf_context *ctx = s->fit->problem.ctx;
    hf_status status = pass(s);
    int failed = 0;
    while (failed + 1 < ATTEMPTS && s->again.min && hf_guard_retries(ctx, status)) {
        failed++;
        status = pass(s);
    }
    if (status == HF_OK && failed > 0)
        hf_guard_repaired(ctx, failed > 1 ? HF_FAULT_INTERMITTENT : HF_FAULT_TRANSIENT, 0);
    return status;
}
