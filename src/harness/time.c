/* SPDX-License-Identifier: Apache-2.0
 * Time mode: kernels take turns on one problem, round after round, so that a slow moment of the
 * machine hits all of them; the median counts. */
#include "base/clock.h"
#include "base/mem.h"
#include "core/plan.h"
#include "harness/harness.h"
#include <stdlib.h>
#include <string.h>

#define MIN_ROUNDS 3
#define DEFAULT_ROUNDS 7
#define MAX_ROUNDS 501
#define DEFAULT_BUDGET_S 10.0
#define ENOUGH_S 0.05 /* short calls are repeated until a kernel has run this long */
#define CHECK_WORK                                                                                 \
    2e8 /* product of the dimensions, of what a kernel is checked on before it counts */
#define CHECK_LEAST 64 /* least first dimension there */

struct entrant {
    const struct hf_kernel *kernel;
    double *sample; /* [MAX_ROUNDS] */
    double total;
};

struct timing_job {
    hf_context *ctx;
    const struct hf_subject *subject;
    const hf_dev_shape *shape;
    const hf_dev_time_opts *opts;
    struct hf_case c;
    struct entrant *entrants; /* [count] */
    int count, rounds;
    const struct hf_kernel *planned;
    char *ws;
};

static int compare_doubles(const void *a_, const void *b_) {
    const double a = *(const double *)a_;
    const double b = *(const double *)b_;
    return (a > b) - (a < b);
}

static double median(const double *sorted, int count) {
    return count % 2 ? sorted[count / 2] : 0.5 * (sorted[count / 2 - 1] + sorted[count / 2]);
}

static int compare_entrants(const void *a_, const void *b_) {
    const struct entrant *a = a_;
    const struct entrant *b = b_;
    return (a->total > b->total) - (a->total < b->total);
}

static const struct hf_kernel *reference_of(const hf_context *ctx, const struct hf_subject *subject,
                                            const void *args) {
    const struct hf_device_props props = {.workers = 1};
    const struct hf_call call = {.device = &props, .comm = &ctx->comm, .args = args};
    for (int i = 0; i < subject->count; i++)
        if ((subject->kernels[i]->traits & HF_TRAIT_REFERENCE) &&
            hf_kernel_takes(subject->kernels[i], subject->op, &call))
            return subject->kernels[i];
    return NULL;
}

static bool wanted(const struct timing_job *job, const struct hf_kernel *kernel) {
    const char *name = job->opts->kernel;
    const struct hf_call call = {
        .device = &job->ctx->props, .comm = &job->ctx->comm, .args = job->c.args};
    if (kernel->device != job->ctx->device->id ||
        !hf_kernel_runs_on(kernel, &job->ctx->props, NULL, 0) ||
        !hf_kernel_takes(kernel, job->subject->op, &call))
        return false;
    if (!name)
        return kernel == job->planned;
    if (strcmp(name, "all") == 0)
        return !(kernel->traits & HF_TRAIT_REFERENCE);
    return strcmp(name, kernel->name) == 0;
}

/* Is the kernel right on such a problem, with so much less of the first dimension that the
 * reference ends soon? */
static hf_status trusted(const struct timing_job *job, const struct hf_kernel *kernel, bool *ok) {
    hf_dev_shape small = *job->shape;
    const struct hf_key key = hf_shape_key(&small);
    const double most = CHECK_WORK / (hf_key_size(job->subject->op, &key) / (double)small.dim[0]);
    const struct hf_problem problem = {
        .shape = &small, .data = job->opts->data, .seed = job->opts->seed};
    struct hf_case c;
    if (most < (double)small.dim[0])
        small.dim[0] = most < CHECK_LEAST ? CHECK_LEAST : (int64_t)most;
    HF_TRY(hf_problem_make(job->subject, &problem, &c, &job->ctx->error));
    const struct hf_kernel *reference = reference_of(job->ctx, job->subject, c.args);
    *ok = reference && hf_check_kernel_once(job->ctx, job->subject, kernel, reference, &c);
    hf_case_clear(&c);
    return HF_OK;
}

static hf_status choose_kernels(struct timing_job *job) {
    const struct hf_subject *subject = job->subject;
    size_t ws_bytes = 0;
    job->entrants = hf_alloc_zero((size_t)subject->count * sizeof *job->entrants);
    if (!job->entrants)
        return hf_ctx_fail(job->ctx, HF_E_NOMEM, "no memory to time %s", subject->op->name);
    for (int i = 0; i < subject->count; i++) {
        const struct hf_kernel *kernel = subject->kernels[i];
        bool ok = wanted(job, kernel);
        if (ok && job->opts->checked_only)
            HF_TRY(trusted(job, kernel, &ok));
        if (!ok)
            continue;
        const size_t need = hf_kernel_workspace(job->ctx, kernel, job->c.args);
        ws_bytes = need > ws_bytes ? need : ws_bytes;
        job->entrants[job->count].kernel = kernel;
        job->entrants[job->count++].sample = hf_alloc_zero(MAX_ROUNDS * sizeof(double));
        if (!job->entrants[job->count - 1].sample)
            return hf_ctx_fail(job->ctx, HF_E_NOMEM, "no memory to time %s", subject->op->name);
    }
    if (job->count == 0)
        return hf_ctx_fail(
            job->ctx, HF_E_UNSUPPORTED,
            "%s: no kernel%s%s that runs here takes this shape%s; see `holdfast plan %s "
            "... --explain`",
            subject->op->name, job->opts->kernel ? " named " : "",
            job->opts->kernel ? job->opts->kernel : "",
            job->opts->checked_only ? " and is right on it" : "", subject->op->name);
    job->ws = hf_ctx_alloc(job->ctx, ws_bytes);
    return job->ws ? HF_OK
                   : hf_ctx_fail(job->ctx, HF_E_NOMEM, "no memory for the workspace of %s",
                                 subject->op->name);
}

static hf_status run_kernel(struct timing_job *job, const struct hf_kernel *kernel,
                            double *seconds) {
    hf_context *ctx = job->ctx;
    HF_TRY(hf_case_restore_on(&job->c, ctx));
    HF_TRY(ctx->device->mark(ctx->stream, 0));
    struct hf_call call;
    HF_TRY(hf_call_of(ctx, kernel, job->c.args, &call));
    call.ws = job->ws;
    const hf_status status = kernel->run(&call);
    HF_TRY(ctx->device->mark(ctx->stream, 1));
    *seconds = ctx->device->span(ctx->stream);
    if (status != HF_OK || *seconds < 0)
        return hf_ctx_fail(ctx, status != HF_OK ? status : HF_E_DEVICE, "%s failed: %s %s",
                           kernel->name, hf_status_text(status),
                           ctx->device->error_text(ctx->stream));
    return HF_OK;
}

/* Rounds that suffice, from the warm-up. */
static int rounds_wanted(const struct timing_job *job, double slowest) {
    if (job->opts->rounds > 0)
        return job->opts->rounds < MAX_ROUNDS ? job->opts->rounds : MAX_ROUNDS;
    const double rounds = slowest > 0 ? ENOUGH_S / slowest : MAX_ROUNDS;
    return rounds < DEFAULT_ROUNDS ? DEFAULT_ROUNDS
                                   : (rounds > MAX_ROUNDS ? MAX_ROUNDS : (int)rounds);
}

static hf_status run_rounds(struct timing_job *job) {
    const double budget = job->opts->budget_s > 0 ? job->opts->budget_s : DEFAULT_BUDGET_S;
    const double start = hf_now_s();
    double slowest = 0;
    for (int e = 0; e < job->count; e++) {
        double seconds;
        HF_TRY(run_kernel(job, job->entrants[e].kernel, &seconds));
        slowest = seconds > slowest ? seconds : slowest;
    }
    const int rounds = rounds_wanted(job, slowest);
    for (job->rounds = 0; job->rounds < rounds; job->rounds++) {
        if (job->rounds >= MIN_ROUNDS && hf_now_s() - start > budget)
            break;
        for (int e = 0; e < job->count; e++) {
            struct entrant *entrant = &job->entrants[(e + job->rounds) % job->count];
            HF_TRY(run_kernel(job, entrant->kernel, &entrant->sample[job->rounds]));
        }
    }
    return HF_OK;
}

/* Flops and bytes that are needed at least, and the time they take at the ceilings. */
static void set_ceiling(const struct timing_job *job, const struct hf_kernel *kernel,
                        hf_dev_timing *timing) {
    const hf_dev_ceiling *ceiling = job->opts->ceiling;
    job->subject->op->cost(job->c.args, &timing->flops, &timing->bytes);
    timing->ceiling_by = "";
    if (!ceiling || kernel->device != HF_DEV_HOST)
        return;
    const double fma = ceiling->fma_f32[kernel->isa];
    const double compute_s = fma > 0 ? timing->flops / fma : 0;
    const double read_s = ceiling->read_bytes > 0 ? timing->bytes / ceiling->read_bytes : 0;
    timing->ceiling_s = compute_s > read_s ? compute_s : read_s;
    timing->ceiling_by = compute_s > read_s ? "fma" : "memory";
}

static void report(struct timing_job *job, hf_dev_timing_fn each, void *user) {
    const struct hf_key key = hf_op_key(job->subject->op, job->c.args);
    for (int e = 0; e < job->count; e++) {
        struct entrant *entrant = &job->entrants[e];
        qsort(entrant->sample, (size_t)job->rounds, sizeof(double), compare_doubles);
        entrant->total = median(entrant->sample, job->rounds);
    }
    qsort(job->entrants, (size_t)job->count, sizeof *job->entrants, compare_entrants);
    for (int e = 0; e < job->count; e++) {
        const struct entrant *entrant = &job->entrants[e];
        hf_dev_timing timing = {.op = job->subject->op->name,
                                .kernel = entrant->kernel->name,
                                .shape = hf_key_shape(&key),
                                .threads = job->ctx->threads,
                                .rounds = job->rounds,
                                .median_s = entrant->total,
                                .min_s = entrant->sample[0],
                                .max_s = entrant->sample[job->rounds - 1],
                                .planned = entrant->kernel == job->planned};
        set_ceiling(job, entrant->kernel, &timing);
        each(user, &timing);
    }
}

static hf_status time_case(struct timing_job *job) {
    const struct hf_kernel_set set = hf_subject_set(job->subject);
    HF_TRY(hf_plan_set(job->ctx, &set, job->c.args, &job->planned, NULL));
    HF_TRY(choose_kernels(job));
    HF_TRY(hf_case_move(&job->c, job->subject->op->args_size, job->ctx));
    return run_rounds(job);
}

hf_status hf_time_subject(hf_context *ctx, const struct hf_subject *subject,
                          const hf_dev_shape *shape, const hf_dev_time_opts *opts,
                          hf_dev_timing_fn each, void *user) {
    const struct hf_problem problem = {.shape = shape, .data = opts->data, .seed = opts->seed};
    struct timing_job job = {.ctx = ctx, .subject = subject, .shape = shape, .opts = opts};
    HF_TRY(hf_problem_make(subject, &problem, &job.c, &ctx->error));
    const hf_status status = time_case(&job);
    if (status == HF_OK)
        report(&job, each, user);
    for (int e = 0; e < job.count; e++)
        hf_free(job.entrants[e].sample);
    hf_free(job.entrants);
    hf_ctx_release(ctx, job.ws);
    hf_case_unmove(&job.c, ctx);
    hf_case_clear(&job.c);
    return status;
}

hf_status hf_dev_time(hf_context *ctx, const char *op, const hf_dev_shape *shape,
                      const hf_dev_time_opts *opts, hf_dev_timing_fn each, void *user) {
    static const hf_dev_time_opts defaults = {0};
    const int id = hf_op_find(op);
    struct hf_subject subject;
    if (id < 0)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no op called %s", op);
    if (!hf_subject_init(&subject, id))
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory to time %s", op);
    const hf_status status =
        hf_time_subject(ctx, &subject, shape, opts ? opts : &defaults, each, user);
    hf_subject_clear(&subject);
    return status;
}
