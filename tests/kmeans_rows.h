/* SPDX-License-Identifier: Apache-2.0
 * Fits by each row of op assign that runs on this CPU. */
#ifndef KMEANS_ROWS_H
#define KMEANS_ROWS_H

#include "kmeans_brute.h"

#include "core/context.h"
#include "core/kernel.h"
#include "core/op.h"
#include "ops/assign/assign.h"

/* The first row that takes the calls, which is the reference, is checked; the others are like it to
 * the bit. Returns their number. */
static inline int every_row(hf_context *ctx, const struct problem *p, const hf_kmeans_opts *o) {
    const hf_dtype wide = p->x.dtype == HF_F64 ? HF_F64 : HF_F32;
    const struct hf_assign_args args = {
        .x = p->x, .c = hf_array_view(NULL, wide, o->k, p->d), .metric = o->metric, .exact = true};
    const struct hf_call call = {.device = &ctx->props, .args = &args};
    const struct hf_kernel *row;
    hf_kmeans_result fit[2] = {{0}, {0}}; /* of the first row, of another */
    int rows = 0;
    for (int i = 0; (row = hf_kernel_at(HF_OP_ASSIGN, i)) != NULL; i++) {
        if (row->device != HF_DEV_HOST || !hf_kernel_runs_here(row, NULL, 0) ||
            (row->supports && !row->supports(&call)))
            continue;
        hf_kmeans_result *r = &fit[rows++ > 0];
        assert_int_equal(setenv("HF_KERNEL_ASSIGN", row->name, 1), 0);
        FIT_OK(ctx, hf_kmeans_fit(ctx, &p->x, o, r));
        assert_string_equal(r->kernel_assign, row->name);
        if (r == fit)
            check_result(p, o, r);
        else
            assert_same_fit(fit, r);
        hf_kmeans_result_clear(&fit[1]);
    }
    assert_int_equal(unsetenv("HF_KERNEL_ASSIGN"), 0);
    hf_kmeans_result_clear(fit);
    return rows;
}

#endif
