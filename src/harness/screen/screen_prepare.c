/* SPDX-License-Identifier: Apache-2.0
 * What the screen asks, and the answers: the cases of the kernel tests and each op's benchmark
 * problem, by the reference. */
#include "base/mem.h"
#include "harness/screen/screen.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#define ANSWERS_SHARE 0.25 /* most of the time that the answers may take, */
#define ANSWERS_LONG 0.1   /* of a screen of more than SCREEN_LONG_S */
#define MOST_WORK 1e6 /* product of the dimensions of a benchmark problem, for each ten seconds, */
#define MOST_WORK_EVER 2e7
#define LEAST 64  /* of its first dimension */
#define TRIED 400 /* cases of an op that are looked at */

const struct hf_kernel *hf_screen_reference(const struct screen *s,
                                            const struct hf_subject *subject, const void *args) {
    const struct hf_device_props props = {.workers = 1};
    const struct hf_call call = {.device = &props, .comm = &s->comm, .args = args};
    for (int i = 0; i < subject->count; i++)
        if ((subject->kernels[i]->traits & HF_TRAIT_REFERENCE) &&
            hf_kernel_takes(subject->kernels[i], subject->op, &call))
            return subject->kernels[i];
    return NULL;
}

static bool make_bench(const struct screen *s, const struct hf_subject *subject,
                       struct hf_case *c) {
    hf_error err;
    struct hf_key key = subject->cases->example;
    const double most = fmin(MOST_WORK_EVER, MOST_WORK * s->opts->seconds / 10);
    while (key.dim[0] > LEAST && hf_key_size(subject->op, &key) > most)
        key.dim[0] /= 2;
    const hf_dev_shape shape = hf_key_shape(&key);
    const struct hf_problem problem = {.shape = &shape, .seed = s->opts->seed};
    return subject->cases->make_bench != NULL &&
           hf_problem_make(subject, &problem, c, &err) == HF_OK &&
           snprintf(c->name, sizeof c->name, "the benchmark problem of %s", subject->op->name) > 0;
}

bool hf_screen_make(const struct screen *s, const struct screen_problem *problem,
                    struct hf_case *c) {
    const struct hf_subject *subject = problem->subject;
    if (problem->id < 0)
        return make_bench(s, subject, c);
    struct hf_rng rng = {s->opts->seed,
                         ((uint64_t)(unsigned)problem->op << 40) | (uint64_t)problem->id, 0};
    if (!hf_case_init(c, subject->op))
        return false;
    if (subject->cases->make_case(&rng, problem->id, c) && !c->failed && hf_case_seal(c, true))
        return true;
    hf_case_clear(c);
    return false;
}

struct screen_kernel *hf_screen_listed(struct screen *s, const char *name) {
    for (int k = 0; k < s->kernels; k++)
        if (strcmp(s->kernel[k].kernel->name, name) == 0)
            return &s->kernel[k];
    return NULL;
}

bool hf_screen_takes(const struct screen *s, const struct screen_kernel *kernel,
                     const struct screen_problem *problem) {
    const struct hf_call call = {.device = &s->props, .comm = &s->comm, .args = problem->home.args};
    return kernel->op == problem->op && kernel->here &&
           hf_kernel_takes(kernel->kernel, problem->subject->op, &call);
}

/* How often each kernel of the op is taken already; does this problem serve one that needs it? */
static bool is_needed(const struct screen *s, const struct screen_problem *problem, int wanted,
                      int *taken) {
    bool needed = false;
    for (int k = 0; k < s->kernels; k++)
        if (taken[k] < wanted && hf_screen_takes(s, &s->kernel[k], problem))
            needed = true;
    for (int k = 0; needed && k < s->kernels; k++)
        taken[k] += hf_screen_takes(s, &s->kernel[k], problem);
    return needed;
}

/* Does every kernel of the op have as many problems as wanted? */
static bool have_all(const struct screen *s, int op, int wanted, const int *taken) {
    for (int k = 0; k < s->kernels; k++)
        if (s->kernel[k].op == op && s->kernel[k].here && taken[k] < wanted)
            return false;
    return true;
}

/* The answer. False: no memory, or no reference takes the problem. */
static bool answer(const struct screen *s, hf_context *ctx, struct screen_problem *problem) {
    char why[256];
    const struct hf_kernel *reference =
        hf_screen_reference(s, problem->subject, problem->home.args);
    if (!reference || !hf_case_run(ctx, reference, &problem->home, 0xFF, why, sizeof why))
        return false;
    problem->core = s->gpu != NULL ? -1 : sched_getcpu();
    problem->ref = hf_case_copy_outs(&problem->home);
    return problem->ref != NULL;
}

static void add_problem(struct screen *s, hf_context *ctx, int op, int64_t id, int wanted,
                        int *taken) {
    struct screen_problem *p = &s->problem[s->problems];
    *p = (struct screen_problem){.subject = &s->subject[op], .op = op, .id = id};
    if (!hf_screen_make(s, p, &p->home))
        return;
    if (is_needed(s, p, wanted, taken) && answer(s, ctx, p))
        s->problems++;
    else
        hf_case_clear(&p->home);
}

/* So many problems for each kernel as the time allows to run. */
static int wanted_of(const struct screen *s) {
    const double seconds = s->opts->seconds;
    return seconds < 60 ? 2 : seconds < 600 ? 8 : 40;
}

static hf_status find_kernels(struct screen *s) {
    int count = 0;
    for (int op = 0; op < HF_OP_COUNT; op++) {
        if (!hf_subject_init(&s->subject[op], op))
            return HF_E_NOMEM;
        count += s->subject[op].count;
    }
    s->kernel = hf_alloc_zero((size_t)count * sizeof *s->kernel);
    if (!s->kernel)
        return HF_E_NOMEM;
    for (int op = 0; op < HF_OP_COUNT; op++)
        for (int i = 0; i < s->subject[op].count; i++) {
            const struct hf_kernel *kernel = s->subject[op].kernels[i];
            if (kernel->device != (s->gpu != NULL ? HF_DEV_CUDA : HF_DEV_HOST) ||
                (s->opts->op && hf_op_find(s->opts->op) != op))
                continue;
            struct screen_kernel *k = &s->kernel[s->kernels++];
            *k = (struct screen_kernel){.subject = &s->subject[op], .op = op, .kernel = kernel};
            k->here = s->gpu != NULL ? hf_kernel_runs_on(kernel, &s->props, NULL, 0)
                                     : hf_kernel_runs_here(kernel, NULL, 0);
            k->width = 1;
            k->visits = hf_alloc_zero((size_t)s->cores * sizeof *k->visits);
            k->wrong = hf_alloc_zero((size_t)s->cores * sizeof *k->wrong);
            if (!k->visits || !k->wrong)
                return HF_E_NOMEM;
        }
    return HF_OK;
}

hf_status hf_screen_prepare(struct screen *s) {
    HF_TRY(find_kernels(s));
    const int wanted = wanted_of(s);
    const double share = s->opts->seconds > SCREEN_LONG_S ? ANSWERS_LONG : ANSWERS_SHARE;
    hf_context *ctx = NULL;
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    int *taken = hf_alloc_zero((size_t)s->kernels * sizeof *taken);
    s->problem = hf_alloc_zero((size_t)HF_OP_COUNT * (TRIED + 1) * sizeof *s->problem);
    hf_status status = taken && s->problem ? hf_context_create(&ctx, &one) : HF_E_NOMEM;
    for (int op = 0; status == HF_OK && op < HF_OP_COUNT; op++) {
        if (s->opts->op && hf_op_find(s->opts->op) != op)
            continue;
        /* It may use what ops before left over; one problem for each kernel comes first. */
        const double until = s->start_s + share * s->opts->seconds * (op + 1) / HF_OP_COUNT;
        add_problem(s, ctx, op, -1, wanted, taken);
        for (int64_t id = 0; id < TRIED && !have_all(s, op, wanted, taken); id++)
            if (hf_screen_now(s) < until || !have_all(s, op, 1, taken))
                add_problem(s, ctx, op, id, wanted, taken);
    }
    hf_context_destroy(ctx);
    hf_free(taken);
    return status;
}

void hf_screen_clear(struct screen *s) {
    for (int p = 0; p < s->problems; p++) {
        hf_case_copies_free(&s->problem[p].home, s->problem[p].ref);
        hf_case_clear(&s->problem[p].home);
    }
    for (int k = 0; k < s->kernels; k++) {
        hf_free(s->kernel[k].visits);
        hf_free(s->kernel[k].wrong);
    }
    for (int op = 0; op < HF_OP_COUNT; op++)
        hf_subject_clear(&s->subject[op]);
    hf_free(s->kernel);
    hf_free(s->problem);
}
