/* SPDX-License-Identifier: Apache-2.0
 * Which kernel would serve a call, and why the others would not. */
#include "base/mem.h"
#include "core/plan.h"
#include "harness/harness.h"
#include <stdio.h>

static void tell(struct hf_context *ctx, const struct hf_plan_candidate *from, const void *args,
                 hf_dev_candidate_fn each, void *user) {
    const struct hf_kernel *kernel = from->kernel;
    hf_dev_candidate to = {.kernel = kernel->name,
                           .usable = from->usable,
                           .chosen = from->chosen,
                           .estimate_s = from->estimate_ns < 0 ? -1 : from->estimate_ns * 1e-9};
    if (from->usable)
        to.workspace_bytes = hf_kernel_workspace(ctx, kernel, args);
    snprintf(to.why, sizeof to.why, "%s", from->why);
    each(user, &to);
}

static hf_status tell_all(hf_context *ctx, const struct hf_subject *subject, const void *args,
                          hf_dev_candidate_fn each, void *user) {
    const struct hf_kernel_set set = hf_subject_set(subject);
    struct hf_plan_candidate *candidates =
        hf_alloc_zero((size_t)subject->count * sizeof *candidates);
    if (!candidates)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to explain a plan");
    hf_plan_explain(ctx, &set, args, candidates);
    for (int i = 0; i < subject->count; i++)
        tell(ctx, &candidates[i], args, each, user);
    hf_free(candidates);
    return HF_OK;
}

hf_status hf_plan_subject(hf_context *ctx, const struct hf_subject *subject,
                          const hf_dev_shape *shape, hf_dev_choice *choice,
                          hf_dev_candidate_fn each, void *user) {
    const struct hf_kernel_set set = hf_subject_set(subject);
    const struct hf_problem problem = {.shape = shape, .seed = 1, .plan_only = true};
    const struct hf_kernel *kernel = NULL;
    const char *source = "";
    struct hf_case c;
    HF_TRY(hf_problem_make(subject, &problem, &c, &ctx->error));
    hf_status status = each ? tell_all(ctx, subject, c.args, each, user) : HF_OK;
    if (status == HF_OK)
        status = hf_plan_set(ctx, &set, c.args, &kernel, &source);
    hf_case_clear(&c);
    if (status == HF_OK && choice)
        *choice = (hf_dev_choice){kernel->name, source};
    return status;
}

hf_status hf_dev_plan(hf_context *ctx, const char *op, const hf_dev_shape *shape,
                      hf_dev_choice *choice, hf_dev_candidate_fn each, void *user) {
    struct hf_subject subject;
    const int id = hf_op_find(op);
    if (id < 0)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no op called %s", op);
    if (!hf_subject_init(&subject, id))
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to plan %s", op);
    const hf_status status = hf_plan_subject(ctx, &subject, shape, choice, each, user);
    hf_subject_clear(&subject);
    return status;
}
