/* SPDX-License-Identifier: Apache-2.0
 * A wrong answer is asked for again: on the same core, which tells a transient fault from one that
 * stays, and on others, which tells a bad core from a bad kernel. */
#include "harness/screen/screen.h"

#include <string.h>

#define REPEATS 5
#define OTHERS 4

bool hf_screen_run(const struct screen *s, hf_context *ctx, const struct screen_question *q,
                   char *why, size_t why_bytes) {
    const hf_dev_screen_opts *opts = s->opts;
    const struct hf_kernel *kernel = q->kernel->kernel;
    struct hf_case *c = q->c;
    void *outs[HF_CASE_BUFS];
    hf_case_forget(c);
    if (!hf_case_run(ctx, kernel, c, 0xFF, why, why_bytes))
        return false;
    if (q->at >= 0 && opts->plant - 1 == s->core[q->at] &&
        (!opts->plant_kernel || strcmp(opts->plant_kernel, kernel->name) == 0) &&
        hf_case_outs(c, outs) > 0)
        *(unsigned char *)outs[0] ^= 0xff;
    return hf_case_right(q->problem->subject, c, q->problem->ref, why, why_bytes);
}

/* One answer on core number `at`: 1 right, 0 wrong, -1 the core cannot be entered. */
static int ask(const struct screen *s, hf_context *ctx, int at, const struct screen_kernel *kernel,
               const struct screen_problem *problem) {
    struct screen_place place;
    struct hf_case c;
    char why[256];
    int right = -1;
    if (!hf_screen_enter(s, at, kernel->width, &place))
        return -1;
    if (hf_screen_make(s, problem, &c)) {
        const struct screen_question q = {kernel, problem, &c, at};
        right = hf_screen_run(s, ctx, &q, why, sizeof why);
        hf_case_clear(&c);
    }
    return hf_screen_leave(s, &place) ? right : -1;
}

static int number_of_core(const struct screen *s, int core) {
    for (int c = 0; c < s->cores; c++)
        if (s->core[c] == core)
            return c;
    return -1;
}

void hf_screen_triage(struct screen *s, hf_context *ctx, int at, struct screen_kernel *kernel,
                      const struct screen_problem *problem, const char *why) {
    hf_dev_screen_finding f = {.op = problem->subject->op->name,
                               .kernel = kernel->kernel->name,
                               .problem = problem->home.name,
                               .phase = s->phase,
                               .core = s->core[at],
                               .with = kernel->width,
                               .text = why};
    const int home = number_of_core(s, problem->core);
    bool home_right = false;
    for (int i = 0; i < REPEATS; i++) {
        const int right = ask(s, ctx, at, kernel, problem);
        f.repeats += right >= 0;
        f.repeats_wrong += right == 0;
    }
    for (int c = 0; c < s->cores && f.others < OTHERS; c += kernel->width) {
        const int right = c == at ? -1 : ask(s, ctx, c, kernel, problem);
        f.others += right >= 0;
        f.others_wrong += right == 0;
        home_right = home_right || (c == home && right == 1);
    }
    f.blame = f.others == 0               ? HF_DEV_BLAME_UNKNOWN
              : f.others_wrong < f.others ? HF_DEV_BLAME_CORE
                                          : HF_DEV_BLAME_KERNEL;
    /* All but the core that computed the answer contradict it: the answer is wrong. */
    if (home_right && f.others > 1 && f.others_wrong == f.others - 1) {
        f.core = problem->core;
        at = home;
    }
    pthread_mutex_lock(&s->lock);
    s->result->findings++;
    kernel->wrong[at]++;
    if (s->opts->finding)
        s->opts->finding(s->opts->user, &f);
    pthread_mutex_unlock(&s->lock);
}
