/* SPDX-License-Identifier: Apache-2.0
 * A wrong answer is asked for again: on the same core, which tells a transient fault from one that
 * stays, and on others, which tells a bad core from a bad kernel. */
#include "harness/screen/screen.h"

#define REPEATS 5
#define OTHERS 4

bool hf_screen_run(const struct screen *s, hf_context *ctx, const struct screen_question *q,
                   char *why, size_t why_bytes) {
    struct hf_case *c = q->c;
    hf_case_forget(c);
    if (!hf_case_run(ctx, q->kernel->kernel, c, 0xFF, why, why_bytes))
        return false;
    const bool all = s->opts->plant_lane > 0; /* that such a lane makes is struck */
    for (int i = 0, spoilt = 0; i < c->bufs && (all || spoilt == 0); i++)
        if (c->buf[i].out) {
            hf_screen_spoil(s, q->kernel->kernel->name, q->kernel->op == HF_OP_LANES, q->at,
                            c->buf[i].ptr, c->buf[i].bytes);
            spoilt++;
        }
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
                               .lane = -1,
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
    if (f.blame == HF_DEV_BLAME_CORE && kernel->width == 1 && f.repeats_wrong > 0)
        f.lane = hf_screen_lane(s, ctx, at, &f.lanes);
    pthread_mutex_lock(&s->lock);
    s->result->findings++;
    kernel->wrong[at]++;
    if (s->opts->finding)
        s->opts->finding(s->opts->user, &f);
    pthread_mutex_unlock(&s->lock);
}
