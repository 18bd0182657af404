/* SPDX-License-Identifier: Apache-2.0
 * What checks outside kernels have in common: work that is done twice, what is told. */
#include "core/kernel.h"
#include "core/plan.h"
#include "core/run.h"
#include "guard/guard.h"

#define MOST_TURNS 5

void hf_guard_found(hf_context *ctx, enum hf_fault fault, int64_t row, int64_t column) {
    ctx->guard.counts.suspected++;
    ctx->guard.found_by = NULL;
    ctx->guard.lane = -1;
    ctx->guard.found = (struct hf_finding){
        .fault = (uint32_t)fault, .unit = -1, .column = (int32_t)column, .row = row};
}

void hf_guard_nothing(hf_context *ctx) {
    ctx->guard.found_by = NULL;
    ctx->guard.lane = -1;
    ctx->guard.found =
        (struct hf_finding){.fault = HF_FAULT_NONE, .unit = -1, .column = -1, .row = -1};
}

static void tell(hf_context *ctx, hf_fault_kind kind, bool repaired) {
    struct hf_guard_state *guard = &ctx->guard;
    const struct hf_finding *f = &guard->found;
    if (guard->on_fault != NULL) {
        const hf_error text = ctx->error;
        const uint32_t fault = f->fault < HF_FAULT_COUNT ? f->fault : HF_FAULT_CHECK;
        const hf_fault_note note = {.check = hf_check_name((int)fault),
                                    .kernel = guard->found_by != NULL ? guard->found_by : "",
                                    .text = text.text,
                                    .row = f->row,
                                    .column = f->column,
                                    .iteration = guard->iteration,
                                    .unit = f->unit,
                                    .kind = kind,
                                    .repaired = repaired,
                                    .lane = guard->lane};
        guard->on_fault(guard->on_fault_user, &note);
    }
    hf_guard_nothing(ctx);
}

void hf_guard_repaired(hf_context *ctx, hf_fault_kind kind, int rolled_back) {
    ctx->guard.counts.confirmed++;
    ctx->guard.counts.repaired++;
    ctx->guard.counts.rolled_back += rolled_back;
    tell(ctx, kind, true);
}

void hf_guard_lost(hf_context *ctx, hf_fault_kind kind) {
    ctx->guard.counts.confirmed++;
    tell(ctx, kind, false);
}

bool hf_guard_retries(const hf_context *ctx, hf_status status) {
    return status == HF_E_CORRUPT && ctx->guard.scheme != HF_SCHEME_OFF &&
           ctx->guard.scheme != HF_SCHEME_DETECT;
}

hf_status hf_guard_repeat(hf_context *ctx, const struct hf_repeated *work, void *user) {
    HF_TRY(work->run(user, 0));
    if (!hf_guard_checks(ctx, work->fault) || (work->host_only && !hf_ctx_is_host(ctx)))
        return HF_OK;
    uint64_t before = work->sign(user);
    for (int turn = 1; turn < MOST_TURNS; turn++) {
        HF_TRY(work->run(user, turn));
        hf_guard_checked(ctx, work->fault, 1);
        const uint64_t now = work->sign(user);
        if (now == before) {
            if (turn > 1)
                hf_guard_repaired(ctx, turn > 2 ? HF_FAULT_INTERMITTENT : HF_FAULT_TRANSIENT, 0);
            return HF_OK;
        }
        hf_guard_found(ctx, work->fault, -1, -1);
        const hf_status status =
            hf_ctx_fail(ctx, HF_E_CORRUPT,
                        "%s came out twice differently: the machine computes wrongly; run "
                        "it again, and if that fails too, on another machine",
                        work->what);
        if (!hf_guard_retries(ctx, status))
            return status;
        before = now;
    }
    return HF_E_CORRUPT;
}

/* Same bits from every kernel is what the op promises, unless it says otherwise of this call. */
const struct hf_kernel *hf_guard_twin(hf_context *ctx, enum hf_op_id op,
                                      const struct hf_kernel *kernel, const void *args) {
    const struct hf_call call = {.device = &ctx->props, .comm = &ctx->comm, .args = args};
    const struct hf_op *info = hf_op_at((int)op);
    const struct hf_kernel *twin = NULL;
    if (info->unanimous != NULL && !info->unanimous(args))
        return kernel;
    const uint32_t dtype = HF_DT(hf_op_key(info, args).dtype[0]);
    for (int i = 0; (twin = hf_kernel_at((int)op, i)) != NULL; i++)
        if (twin != kernel && twin->device == kernel->device &&
            !(twin->traits & HF_TRAIT_REFERENCE) && (twin->dtypes & dtype) != 0 &&
            hf_kernel_runs_on(twin, &ctx->props, NULL, 0) &&
            (twin->supports == NULL || twin->supports(&call)) &&
            hf_kernel_workspace(ctx, twin, args) <= hf_workspace_room(ctx))
            return twin;
    return kernel;
}
