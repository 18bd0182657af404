/* SPDX-License-Identifier: Apache-2.0
 * Which row would serve a call, and why the others would not. */
#include "base/mem.h"
#include "core/plan.h"
#include "harness/harness.h"
#include <stdio.h>
#include <string.h>

struct explain {
    const struct hf_kernel *chosen;
    const char *source;
    int workers;
    double best_ns; /* of the chosen row, < 0: none */
};

static void say_why(const struct explain *e, const struct hf_kernel *row,
                    hf_dev_candidate *candidate) {
    char *const why = candidate->why;
    const size_t bytes = sizeof candidate->why;
    const double ns = candidate->estimate_s * 1e9;
    if (candidate->chosen)
        snprintf(why, bytes, "chosen: %s", e->source);
    else if (row->traits & HF_TRAIT_REFERENCE)
        snprintf(why, bytes, "reference: only when nothing else can");
    else if (strcmp(e->source, "model") != 0)
        snprintf(why, bytes, "%s names another row", e->source);
    else if (candidate->estimate_s < 0)
        snprintf(why, bytes, "no estimate: never preferred");
    else if (e->best_ns > 0)
        snprintf(why, bytes, "estimated %.2f times as slow", ns / e->best_ns);
}

static void describe(const struct explain *e, const struct hf_subject *subject,
                     const struct hf_kernel *row, const void *args, hf_dev_candidate *candidate) {
    struct hf_key key = {0};
    char *const why = candidate->why;
    const size_t bytes = sizeof candidate->why;
    memset(candidate, 0, sizeof *candidate);
    subject->op->key(args, &key);
    candidate->kernel = row->name;
    candidate->chosen = row == e->chosen;
    candidate->estimate_s = -1;
    if (!hf_kernel_runs_here(row, why, bytes))
        return;
    if (!(row->dtypes & HF_DT(key.dtype))) {
        snprintf(why, bytes, "not for %s data", hf_dtype_name(key.dtype));
        return;
    }
    if (row->supports && !row->supports(args)) {
        snprintf(why, bytes, "does not take this shape or these options");
        return;
    }
    candidate->usable = 1;
    candidate->estimate_s = row->estimate ? row->estimate(args) * 1e-9 : -1;
    candidate->workspace_bytes = row->workspace ? row->workspace(args, e->workers) : 0;
    say_why(e, row, candidate);
}

static hf_status plan_and_tell(hf_context *ctx, int op, const struct hf_subject *subject,
                               const void *args, struct explain *e, hf_dev_candidate_fn each,
                               void *user) {
    hf_dev_candidate candidate;
    const hf_status status = hf_plan(ctx, op, args, &e->chosen, &e->source);
    if (status != HF_OK && status != HF_E_UNSUPPORTED)
        return status;
    e->best_ns = status == HF_OK && e->chosen->estimate ? e->chosen->estimate(args) : -1;
    for (int i = 0; each && i < subject->count; i++) {
        describe(e, subject, subject->rows[i], args, &candidate);
        each(user, &candidate);
    }
    return status;
}

hf_status hf_dev_plan(hf_context *ctx, const char *op, const hf_dev_shape *shape,
                      const char **kernel, const char **source, hf_dev_candidate_fn each,
                      void *user) {
    const int id = hf_op_find(op);
    struct hf_subject subject;
    struct hf_case c;
    struct explain e = {.source = "", .workers = ctx->threads};
    if (id < 0)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no op called %s", op);
    if (!hf_subject_init(&subject, id))
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to plan %s", op);
    hf_status status = hf_problem_make(&subject, shape, 1, false, true, &c, &ctx->error);
    if (status == HF_OK) {
        status = plan_and_tell(ctx, id, &subject, c.args, &e, each, user);
        hf_case_clear(&c);
    }
    hf_subject_clear(&subject);
    if (status == HF_OK && kernel)
        *kernel = e.chosen->name;
    if (status == HF_OK && source)
        *source = e.source;
    return status;
}
