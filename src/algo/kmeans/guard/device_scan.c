/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/device_scan.h"
#include "algo/kmeans/guard/device_ledger.h"
#include "base/dtype.h"
#include "guard/guard.h"
#include "ops/audit/audit.h"
#include <string.h>

#define ATTEMPTS 3

/* Are these all rows of the fit, one behind the other, in whole words? */
static bool is_whole(const struct hf_fit *fit, const hf_array *panel) {
    const int64_t stride = panel->row_stride ? panel->row_stride : panel->cols;
    const size_t bytes = (size_t)(panel->rows * panel->cols) * hf_dtype_bytes(panel->dtype);
    return panel->rows == fit->problem.n_all && stride == panel->cols &&
           ((uintptr_t)panel->data | bytes) % sizeof(uint32_t) == 0;
}

static struct hf_audit_args sign_args(const hf_array *rows, struct hf_audit_found *found) {
    const size_t bytes = (size_t)(rows->rows * rows->cols) * hf_dtype_bytes(rows->dtype);
    return (struct hf_audit_args){
        .words = rows->data, .n_words = (int64_t)(bytes / sizeof(uint32_t)), .found = found};
}

hf_status hf_device_scan_ranges(struct hf_scan *s, const hf_array *panel) {
    struct hf_ledger *l = &s->fit->ledger;
    hf_context *ctx = s->fit->problem.ctx;
    struct hf_range_args args = s->range;
    struct hf_range_args again = s->again;
    struct hf_audit_found found = {0};
    const struct hf_audit_args sign = sign_args(panel, &found);
    const struct hf_kernel *range = NULL;
    const struct hf_kernel *audit = NULL;
    args.x = again.x = *panel;
    again.row_bad = args.row_bad;
    l->rows_signed &= is_whole(s->fit, panel);
    const bool joint = hf_ctx_begin_calls(ctx);
    hf_status status = HF_OK;
    if (l->rows_signed)
        status = joint ? hf_queue(ctx, HF_OP_AUDIT, &sign, &audit) : hf_audit(ctx, &sign);
    if (status == HF_OK)
        status = joint ? hf_queue(ctx, HF_OP_RANGE, &args, &range) : hf_range(ctx, &args);
    if (status == HF_OK)
        status = joint ? hf_queue(ctx, HF_OP_RANGE, &again, &range) : hf_range(ctx, &again);
    status = joint ? hf_ctx_end_calls(ctx, status) : status;
    l->rows = found.sign;
    if (status != HF_OK || !l->rows_signed || *args.bad_rows == 0)
        return status;
    uint64_t now = 0; /* were they bad before? */
    HF_TRY(hf_device_scan_sign(s->fit, panel, &now));
    s->differ |= now != l->rows;
    return HF_OK;
}

static hf_status moments_twice(struct hf_scan *s, const struct hf_moments_args *args) {
    hf_context *ctx = s->fit->problem.ctx;
    const struct hf_kernel *kernel = NULL;
    struct hf_moments_args again = *args;
    again.sum = s->moments_again;
    again.sum_square = again.sum + 2 * s->fit->problem.d;
    const bool joint = hf_ctx_begin_calls(ctx);
    hf_status status =
        joint ? hf_queue(ctx, HF_OP_MOMENTS, args, &kernel) : hf_run(ctx, HF_OP_MOMENTS, args);
    if (status == HF_OK)
        status = joint ? hf_queue(ctx, HF_OP_MOMENTS, &again, &kernel)
                       : hf_run(ctx, HF_OP_MOMENTS, &again);
    return joint ? hf_ctx_end_calls(ctx, status) : status;
}

hf_status hf_device_scan_moments(struct hf_scan *s, const struct hf_moments_args *args) {
    hf_context *ctx = s->fit->problem.ctx;
    const size_t bytes = 4 * (size_t)s->fit->problem.d * sizeof(int64_t);
    memcpy(s->moments_before, s->sum, bytes);
    for (int turn = 0; turn < ATTEMPTS; turn++) {
        memcpy(s->sum, s->moments_before, bytes);
        memcpy(s->moments_again, s->moments_before, bytes);
        HF_TRY(moments_twice(s, args));
        hf_guard_checked(ctx, HF_FAULT_STATE, 1);
        if (memcmp(s->sum, s->moments_again, bytes) == 0) {
            if (turn > 0)
                hf_guard_repaired(ctx, turn > 1 ? HF_FAULT_INTERMITTENT : HF_FAULT_TRANSIENT, 0);
            return HF_OK;
        }
        hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
        const hf_status status =
            hf_ctx_fail(ctx, HF_E_CORRUPT,
                        "the moments of the columns came out twice differently: the machine "
                        "computes wrongly; run it again, and if that fails too, on another "
                        "machine");
        if (!hf_guard_retries(ctx, status))
            return status;
    }
    return HF_E_CORRUPT;
}

hf_status hf_device_scan_sign(struct hf_fit *fit, const hf_array *rows, uint64_t *sign) {
    struct hf_audit_found found = {0};
    const struct hf_audit_args args = sign_args(rows, &found);
    HF_TRY(hf_audit(fit->problem.ctx, &args));
    *sign = found.sign;
    return HF_OK;
}
