/* SPDX-License-Identifier: Apache-2.0
 * Which row would serve a call, and why the others would not. */
#include "base/mem.h"
#include "core/plan.h"
#include "harness/harness.h"
#include <stdio.h>

static void tell(const struct hf_context *ctx, const struct hf_plan_candidate *from,
                 const void *args, hf_dev_candidate_fn each, void *user) {
    const struct hf_kernel *row = from->kernel;
    hf_dev_candidate to = {.kernel = row->name,
                           .usable = from->usable,
                           .chosen = from->chosen,
                           .estimate_s = from->estimate_ns < 0 ? -1 : from->estimate_ns * 1e-9};
    if (from->usable)
        to.workspace_bytes = hf_row_workspace(ctx, row, args);
    snprintf(to.why, sizeof to.why, "%s", from->why);
    each(user, &to);
}

static hf_status tell_all(hf_context *ctx, int op, const void *args, int count,
                          hf_dev_candidate_fn each, void *user) {
    struct hf_plan_candidate *candidates = hf_alloc_zero((size_t)count * sizeof *candidates);
    if (!candidates)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to explain a plan");
    hf_plan_explain(ctx, op, args, candidates, count);
    for (int i = 0; i < count; i++)
        tell(ctx, &candidates[i], args, each, user);
    hf_free(candidates);
    return HF_OK;
}

hf_status hf_dev_plan(hf_context *ctx, const char *op, const hf_dev_shape *shape,
                      const char **kernel, const char **source, hf_dev_candidate_fn each,
                      void *user) {
    const int id = hf_op_find(op);
    struct hf_subject subject;
    struct hf_case c;
    const struct hf_kernel *chosen = NULL;
    const char *from = "";
    if (id < 0)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no op called %s", op);
    if (!hf_subject_init(&subject, id))
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to plan %s", op);
    hf_status status = hf_problem_make(&subject, shape, 1, false, true, &c, &ctx->error);
    if (status == HF_OK) {
        status = each ? tell_all(ctx, id, c.args, subject.count, each, user) : HF_OK;
        if (status == HF_OK)
            status = hf_plan(ctx, id, c.args, &chosen, &from);
        hf_case_clear(&c);
    }
    hf_subject_clear(&subject);
    if (status == HF_OK && kernel)
        *kernel = chosen->name;
    if (status == HF_OK && source)
        *source = from;
    return status;
}
