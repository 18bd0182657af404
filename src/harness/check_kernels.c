/* SPDX-License-Identifier: Apache-2.0
 * Check mode: every kernel on every case against the reference, with 1, 2 and 7 workers, canaries
 * round everything, and bit equality where a kernel promises it. */
#include "base/mem.h"
#include "harness/harness.h"
#include <stdio.h>
#include <string.h>

#define WORKER_COUNTS 3
#define MAX_FAILURES_SHOWN 5 /* of a kernel */

static const int worker_counts[WORKER_COUNTS] = {1, 2, 7};

struct kernel_state {
    int64_t cases, failures;
    bool wanted, runs_here;
    char why_not[160];
};

struct check {
    const hf_dev_check_opts *opts;
    hf_dev_check_fn each;
    void *user;
    hf_dev_tally *tally;
    hf_context *host[WORKER_COUNTS];  /* where kernels run, by number of workers */
    hf_context *device[HF_DEV_COUNT]; /* where those of devices run; NULL: there is none */
    struct kernel_state *kernels;     /* [subject->count] */
    int64_t cases;
};

static bool name_matches(const char *pattern, const char *name) {
    if (!pattern)
        return true;
    const size_t len = strlen(pattern);
    if (len > 0 && pattern[len - 1] == '*')
        return strncmp(pattern, name, len - 1) == 0;
    return strcmp(pattern, name) == 0;
}

static bool kernel_wanted(const hf_dev_check_opts *opts, const struct hf_kernel *kernel) {
    if (opts->device && strcmp(opts->device, hf_device_of(kernel->device)->name) != 0)
        return false;
    return name_matches(opts->kernel, kernel->name);
}

/* Is case number `id` among those to be checked? */
static bool case_wanted(const hf_dev_check_opts *opts, const struct hf_op *op, int64_t id,
                        const void *args) {
    if (opts->shares > 1 && id % opts->shares != opts->share)
        return false;
    const struct hf_key key = hf_op_key(op, args);
    return opts->largest <= 0 || hf_key_size(op, &key) <= (double)opts->largest;
}

static bool is_part(const hf_dev_check_opts *opts) { return opts->shares > 1 || opts->largest > 0; }

static void report(const struct check *check, const hf_dev_check_event *event) {
    if (check->each)
        check->each(check->user, event);
}

static hf_status open_context(hf_context **ctx, const char *device, int workers) {
    const hf_context_opts opts = {.device = device, .threads = workers};
    return hf_context_create(ctx, &opts);
}

bool hf_case_run(hf_context *ctx, const struct hf_kernel *kernel, struct hf_case *c, int poison,
                 char *why, size_t why_bytes) {
    struct hf_bench_ws ws;
    const struct hf_device *device = ctx->device;
    struct hf_call call;
    c->ran = HF_E_INTERNAL; /* not yet */
    if (hf_call_of(ctx, kernel, c->args, &call) != HF_OK) {
        snprintf(why, why_bytes, "%s", hf_last_error(ctx));
        return false;
    }
    const size_t bytes = kernel->workspace ? kernel->workspace(&call) : 0;
    if (!hf_bench_ws_init(&ws, device, ctx->stream, bytes, poison)) {
        snprintf(why, why_bytes, "no memory for its workspace");
        return false;
    }
    hf_case_restore(c);
    hf_case_fence(c, true);
    call.ws = ws.bytes > 0 ? ws.ptr : NULL;
    hf_status status = kernel->run(&call);
    if (status == HF_OK)
        status = device->sync(ctx->stream);
    c->ran = status;
    hf_case_fence(c, false);
    const bool intact = hf_case_intact(c, why, why_bytes);
    const int broken = hf_bench_ws_broken(&ws);
    hf_bench_ws_clear(&ws);
    if (!intact)
        return false;
    if (status != HF_OK) {
        snprintf(why, why_bytes, "returned \"%s\" %s", hf_status_text(status),
                 device->error_text(ctx->stream));
        return false;
    }
    if (hf_verify(ctx) != HF_OK) {
        snprintf(why, why_bytes, "%s", hf_last_error(ctx));
        return false;
    }
    if (broken != 0)
        snprintf(why, why_bytes, "wrote out of bounds: %s its workspace",
                 broken < 0 ? "before" : "past the end of");
    return broken == 0;
}

bool hf_case_right(const struct hf_subject *subject, const struct hf_case *c, void *const *ref,
                   char *why, size_t why_bytes) {
    const struct hf_op *op = subject->op;
    const bool near = op->bound && op->unanimous && !op->unanimous(c->args);
    if (!subject->cases->compare)
        return near ? hf_case_near(c, op, ref, why, why_bytes)
                    : hf_case_same(c, ref, why, why_bytes);
    void *got[HF_CASE_BUFS] = {0};
    hf_case_outs(c, got);
    return subject->cases->compare(c->args, ref, got, why, why_bytes);
}

static hf_context *context_of(const struct check *check, const struct hf_kernel *kernel,
                              int count) {
    return kernel->device == HF_DEV_HOST ? check->host[count] : check->device[kernel->device];
}

/* A kernel, and what it must compute. */
struct expectation {
    const struct hf_subject *subject;
    const struct hf_kernel *kernel;
    void *const *ref; /* outputs of the reference */
};

/* All worker counts, and two workers twice. Workspaces start as NaNs, then as something else, so
 * that a read of what was never written changes a result. Every other run finds what the kernel
 * left in the case's state from the one before. */
static bool check_kernel(const struct check *check, const struct expectation *e, struct hf_case *c,
                         char *why, size_t why_bytes) {
    const struct hf_kernel *kernel = e->kernel;
    static const int order[] = {0, 1, 2, 1};
    static const int poison[] = {0xFF, 0x5A, 0xFF, 0x5A};
    const bool fixed = (kernel->traits & HF_TRAIT_FIXED_ORDER) != 0;
    const int runs = check->opts->once ? 1 : fixed ? 4 : 3;
    void **first = NULL;
    bool ok = true;
    const char *differs = "";
    char text[200] = "";
    int workers = 0;
    for (int r = 0; ok && r < runs; r++) {
        hf_context *ctx = context_of(check, kernel, order[r]);
        workers = ctx->props.workers;
        if (r % 2 == 0)
            hf_case_forget(c);
        ok = hf_case_run(ctx, kernel, c, check->opts->leave_workspace ? -1 : poison[r], text,
                         sizeof text) &&
             hf_case_right(e->subject, c, e->ref, text, sizeof text);
        if (!ok || !fixed)
            continue;
        if (r == 0) {
            first = hf_case_copy_outs(c);
            ok = first != NULL;
        } else if (!hf_case_same(c, first, text, sizeof text)) {
            differs = "not the same bits as with 1 worker: ";
            ok = false;
        }
    }
    hf_case_copies_free(c, first);
    if (!ok)
        snprintf(why, why_bytes, "%s%s (%d worker%s)", differs, text, workers,
                 workers == 1 ? "" : "s");
    return ok;
}

bool hf_check_kernel_once(hf_context *ctx, const struct hf_subject *subject,
                          const struct hf_kernel *kernel, const struct hf_kernel *reference,
                          struct hf_case *c) {
    char why[256];
    hf_context *plain = NULL;
    if (open_context(&plain, "cpu", 1) != HF_OK)
        return false;
    bool ok = hf_case_run(plain, reference, c, 0xFF, why, sizeof why);
    hf_context_destroy(plain);
    void **ref = ok ? hf_case_copy_outs(c) : NULL;
    hf_case_forget(c);
    ok = ref && hf_case_run(ctx, kernel, c, 0xFF, why, sizeof why) &&
         hf_case_right(subject, c, ref, why, sizeof why);
    hf_case_copies_free(c, ref);
    return ok;
}

static void count_failure(const struct check *check, const struct hf_subject *subject, int i,
                          const char *case_name, const char *why) {
    struct kernel_state *state = &check->kernels[i];
    state->failures++;
    if (state->failures <= MAX_FAILURES_SHOWN)
        report(check, &(hf_dev_check_event){subject->op->name, subject->kernels[i]->name, case_name,
                                            HF_DEV_FAILED, state->cases, why});
}

/* The kernel whose results count for this case. */
static const struct hf_kernel *reference_for(const struct check *check,
                                             const struct hf_subject *subject, const void *args) {
    const hf_context *ctx = check->host[0];
    const struct hf_call call = {.device = &ctx->props, .comm = &ctx->comm, .args = args};
    for (int i = 0; i < subject->count; i++) {
        const struct hf_kernel *kernel = subject->kernels[i];
        if ((kernel->traits & HF_TRAIT_REFERENCE) && hf_kernel_takes(kernel, subject->op, &call))
            return kernel;
    }
    return NULL;
}

static hf_status begin(void *user, const struct hf_subject *subject) {
    struct check *check = user;
    check->cases = 0;
    check->kernels = hf_alloc_zero((size_t)subject->count * sizeof *check->kernels);
    if (!check->kernels)
        return HF_E_NOMEM;
    for (int i = 0; i < subject->count; i++) {
        struct kernel_state *state = &check->kernels[i];
        state->wanted = kernel_wanted(check->opts, subject->kernels[i]);
        const struct hf_kernel *kernel = subject->kernels[i];
        const hf_context *ctx = context_of(check, kernel, 0);
        state->runs_here =
            ctx ? hf_kernel_runs_on(kernel, &ctx->props, state->why_not, sizeof state->why_not)
                : hf_kernel_runs_here(kernel, state->why_not, sizeof state->why_not);
    }
    return HF_OK;
}

static hf_status run(void *user, const struct hf_subject *subject, struct hf_case *c) {
    struct check *check = user;
    char why[256];
    if (!case_wanted(check->opts, subject->op, check->cases++, c->args))
        return HF_OK;
    const struct hf_kernel *reference = reference_for(check, subject, c->args);
    if (!reference || !hf_case_run(check->host[0], reference, c, 0xFF, why, sizeof why)) {
        check->tally->failed++;
        report(check,
               &(hf_dev_check_event){subject->op->name, reference ? reference->name : "(reference)",
                                     c->name, HF_DEV_FAILED, check->cases,
                                     reference ? why : "no reference kernel takes this case"});
        return HF_OK;
    }
    void **ref = hf_case_copy_outs(c);
    if (!ref)
        return HF_E_NOMEM;
    for (int i = 0; i < subject->count; i++) {
        struct kernel_state *state = &check->kernels[i];
        if (!state->wanted || !state->runs_here)
            continue;
        const hf_context *ctx = context_of(check, subject->kernels[i], 0);
        const struct hf_call call = {.device = &ctx->props, .comm = &ctx->comm, .args = c->args};
        if (!hf_kernel_takes(subject->kernels[i], subject->op, &call))
            continue;
        state->cases++;
        const struct expectation e = {subject, subject->kernels[i], ref};
        if (!check_kernel(check, &e, c, why, sizeof why))
            count_failure(check, subject, i, c->name, why);
    }
    hf_case_copies_free(c, ref);
    return HF_OK;
}

/* The verdict on each kernel. */
static hf_status end(void *user, const struct hf_subject *subject) {
    struct check *check = user;
    for (int i = 0; check->kernels && i < subject->count; i++) {
        const struct kernel_state *state = &check->kernels[i];
        const char *name = subject->kernels[i]->name;
        char text[128] = "";
        if (!state->wanted)
            continue;
        const bool no_case = state->cases == 0 && is_part(check->opts);
        if (!state->runs_here || no_case) {
            check->tally->skipped++;
            const char *why = state->runs_here ? "no case of this part takes it" : state->why_not;
            report(check,
                   &(hf_dev_check_event){subject->op->name, name, NULL, HF_DEV_SKIPPED, 0, why});
            continue;
        }
        if (state->cases == 0)
            snprintf(text, sizeof text,
                     "none of the %lld cases takes this kernel: it is not tested",
                     (long long)check->cases);
        else if (state->failures > 0)
            snprintf(text, sizeof text, "%lld of %lld cases failed", (long long)state->failures,
                     (long long)state->cases);
        const bool ok = state->cases > 0 && state->failures == 0;
        *(ok ? &check->tally->passed : &check->tally->failed) += 1;
        report(check,
               &(hf_dev_check_event){subject->op->name, name, NULL,
                                     ok ? HF_DEV_PASSED : HF_DEV_FAILED, state->cases, text});
    }
    hf_free(check->kernels);
    check->kernels = NULL;
    return HF_OK;
}

static void close_contexts(struct check *check) {
    for (int i = 0; i < WORKER_COUNTS; i++)
        hf_context_destroy(check->host[i]);
    for (int i = 0; i < HF_DEV_COUNT; i++)
        hf_context_destroy(check->device[i]);
}

static bool device_wanted(const hf_dev_check_opts *opts, const struct hf_device *device) {
    return !opts->device || strcmp(opts->device, device->name) == 0;
}

/* A GPU that is not there is no failure: its kernels are skipped with the reason. */
static hf_status open_contexts(struct check *check) {
    char text[200];
    hf_status status = HF_OK;
    for (int i = 0; status == HF_OK && i < WORKER_COUNTS; i++)
        status = open_context(&check->host[i], "cpu", worker_counts[i]);
    for (int i = HF_DEV_HOST + 1; status == HF_OK && i < HF_DEV_COUNT; i++) {
        const struct hf_device *device = hf_device_of(i);
        if (device && device_wanted(check->opts, device) &&
            device->probe(0, text, sizeof text) == HF_OK)
            status = open_context(&check->device[i], device->name, 1);
    }
    if (status != HF_OK)
        close_contexts(check);
    return status;
}

static bool any_kernel_named(const hf_dev_check_opts *opts) {
    for (int id = 0; id < HF_OP_COUNT; id++) {
        if (opts->op && hf_op_find(opts->op) != id)
            continue;
        const struct hf_kernel *kernel;
        for (int i = 0; (kernel = hf_kernel_at(id, i)) != NULL; i++)
            if (kernel_wanted(opts, kernel))
                return true;
    }
    return false;
}

static struct hf_walk check_walk(struct check *check) {
    return (struct hf_walk){.op = check->opts->op,
                            .seed = check->opts->seed,
                            .max_cases = check->opts->max_cases,
                            .state = check,
                            .begin = begin,
                            .run = run,
                            .end = end};
}

hf_status hf_check_subject(const struct hf_subject *subject, const hf_dev_check_opts *opts,
                           hf_dev_check_fn each, void *user, hf_dev_tally *tally) {
    struct check check = {.opts = opts, .each = each, .user = user, .tally = tally};
    HF_TRY(open_contexts(&check));
    const struct hf_walk walk = check_walk(&check);
    const hf_status status = hf_walk_subject(&walk, subject, 0);
    close_contexts(&check);
    return status;
}

hf_status hf_dev_check(const hf_dev_check_opts *opts, hf_dev_check_fn each, void *user,
                       hf_dev_tally *tally) {
    static const hf_dev_check_opts defaults = {0};
    struct check check = {
        .opts = opts ? opts : &defaults, .each = each, .user = user, .tally = tally};
    *tally = (hf_dev_tally){0};
    if (!any_kernel_named(check.opts))
        return HF_E_ARG;
    HF_TRY(open_contexts(&check));
    const struct hf_walk walk = check_walk(&check);
    const hf_status status = hf_walk_ops(&walk);
    close_contexts(&check);
    return status;
}
